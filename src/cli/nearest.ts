/** What somebody may have meant. */

/** The names that are most like a word, best first: at most three. */
export function nearest(word: string, names: readonly string[]): readonly string[] {
  return rated(word, names)
    .slice(0, 3)
    .map(({ name }) => name);
}

/** The one name that a word was a slip of; undefined where none is two edits away or less. */
export function likeliest(word: string, names: readonly string[]): string | undefined {
  const [best] = rated(word, names);
  // Two edits make anything of a word of two letters.
  const most = word.length < 3 ? 1 : 2;
  return word.length > 1 && best !== undefined && best.far <= most ? best.name : undefined;
}

function rated(word: string, names: readonly string[]): { name: string; far: number }[] {
  return names
    .map((name) => ({ name, far: distance(word.toLowerCase(), name) }))
    .sort((a, b) => a.far - b.far);
}

/** Edits from one to the other; a word that is part of the other is near. */
function distance(word: string, name: string): number {
  if (word !== "" && name.includes(word)) return (name.length - word.length) / 100;
  let row = Array.from({ length: name.length + 1 }, (_, at) => at);
  for (const [nth, char] of [...word].entries()) {
    const next = [nth + 1];
    for (let at = 1; at <= name.length; at++) {
      const change = row[at - 1]! + (name[at - 1] === char ? 0 : 1);
      next.push(Math.min(change, row[at]! + 1, next[at - 1]! + 1));
    }
    row = next;
  }
  return row[name.length]!;
}
