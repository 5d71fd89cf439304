/** Writing of HTML and SVG: text is escaped where it is put in. */

/** Attributes by name; an undefined one is left out. */
export type Attributes = Readonly<Record<string, string | number | undefined>>;

/** Text as it stands in markup. */
export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

/** An element; what is in it is markup already. */
export function element(name: string, attributes: Attributes, ...inner: readonly string[]): string {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ` ${key}="${escape(String(value))}"`)
    .join("");
  return `<${name}${written}>${inner.join("")}</${name}>`;
}

/** A text of a picture. */
export function label(x: number, y: number, className: string, text: string): string {
  return element("text", { x, y, class: className }, escape(text));
}

/** A box of a picture, with what it is when somebody points at it. */
export function box(
  [fromX, toX]: readonly [number, number],
  [y, height]: readonly [number, number],
  className: string,
  title: string,
  fill?: string,
): string {
  const width = Math.max(1, Math.round((toX - fromX) * 10) / 10);
  return element(
    "rect",
    { x: fromX, y, width, height, class: className, fill },
    element("title", {}, escape(title)),
  );
}
