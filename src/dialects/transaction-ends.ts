/**
 * Statements that begin or end a transaction, found by their first words: for a clear word before
 * anything is sent. Such a list is never complete (a procedure may commit on MySQL); what decides
 * is whether it is still the same transaction when it is to be committed.
 */

/** A kind of SQL. */
type Dialect = "sqlite" | "postgres" | "mysql";

// A loop over what varies in length fills the stack: all such loops are bounded, and none of these
// patterns has the flag `u`, with which a character is one or two units long.
const MOST = 1_000;
/** What stands in quotes with backslashes, or the first part of it. */
const inside = (quote: string): string =>
  String.raw`[^${quote}\\]*(?:\\[\s\S][^${quote}\\]*){0,${MOST}}`;
/** One that is longer is read to its end by {@link quoteEnd}. */
const escaped = (quote: string): string => quote + inside(quote) + quote;

// A doubled quote is two texts, one after the other.
const QUOTED = `'[^']*'|"[^"]*"`;
const LETTER = String.raw`A-Za-z_\x80-\uffff`;
const DOLLARS = `(?<dollar>\\$(?:[${LETTER}][${LETTER}\\d]*)?\\$)[\\s\\S]*?(?:\\k<dollar>|$)`;

type Parts = readonly [blank: string, quoted: string];

/** Blanks and comments, and what is quoted. */
const PARTS: Readonly<Record<Dialect, Parts>> = {
  sqlite: [
    String.raw`\s+|--[^\n]*|/\*[\s\S]*?(?:\*/|$)`,
    // The name of a parameter may have anything but blanks in brackets.
    `${QUOTED}|\`[^\`]*\`|\\[[^\\]]*\\]|[$@#:][\\w$:]+\\([^\\s)]*\\)`,
  ],
  // Comments may stand in one another: the outer one is closed below.
  postgres: [String.raw`\s+|--[^\n]*`, `[eE]${escaped("'")}|${QUOTED}|${DOLLARS}`],
  // What stands in /*! or /*M! is run; its end is then a blank.
  mysql: [
    String.raw`\s+|--(?=\s|$)[^\n]*|#[^\n]*|/\*M?!\d*|/\*(?!M?!)[\s\S]*?(?:\*/|$)|\*/`,
    `${escaped("'")}|${escaped('"')}|\`[^\`]*\``,
  ],
};
const WORD = String.raw`[${LETTER}][${LETTER}\d$]*`;

/** What begins a text with backslashes, where it is too long for a pattern. */
const OPENS: Readonly<Record<Dialect, string>> = {
  sqlite: "(?!)",
  postgres: "[eE]'",
  mysql: `['"]`,
};

/** A blank, what is quoted, a word, or any other character. */
const TOKENS = forEach(
  ([blank, quoted], opens) =>
    `(?<blank>${blank})|(?<quoted>${quoted})|(?<opens>${opens})|(?<word>${WORD})|[\\s\\S]`,
);

/** Behind a quote that nothing closes, where others need not be quotes. */
const TORN = forEach(([blank]) => `(?<blank>${blank})|(?<word>${WORD})|[\\s\\S]`);

/**
 * Many tokens at once, up to a semicolon; what comes most often, and begins no other, is first.
 * What has matched inside a lookahead leaves nothing to go back to, which would fill the stack.
 */
const RUNS = forEach(([blank, quoted], opens, nested) => {
  const one = `(?=(?<one>${blank}|${quoted}|(?!${opens})(?:${WORD}|[^;])))\\k<one>`;
  return String.raw`(?:[\s\d,()]+|${nested}${one}){1,${MOST}}`;
});

/** `nested` keeps off a comment that may have others inside. */
function forEach(
  source: (parts: Parts, opens: string, nested: string) => string,
): Readonly<Record<Dialect, RegExp>> {
  const of = (dialect: Dialect): RegExp => {
    const nested = dialect === "postgres" ? String.raw`(?!/\*)` : "";
    return new RegExp(source(PARTS[dialect], OPENS[dialect], nested), "y");
  };
  return { sqlite: of("sqlite"), postgres: of("postgres"), mysql: of("mysql") };
}

/** Behind the quote that closes a text with backslashes; undefined where none does. */
function quoteEnd(text: string, from: number, quote: string): number | undefined {
  const pattern = new RegExp(inside(quote), "y");
  for (let at = from; ; ) {
    pattern.lastIndex = at;
    pattern.test(text);
    if (text[pattern.lastIndex] === quote) return pattern.lastIndex + 1;
    if (pattern.lastIndex === at) return undefined;
    at = pattern.lastIndex;
  }
}

/** Whether a text has a statement that begins or ends a transaction, or commits by itself. */
export function endsTransaction(text: string, dialect: Dialect): boolean {
  for (const words of headsOf(text, dialect)) if (ENDS[dialect](words)) return true;
  return false;
}

type Words = readonly string[];

const ENDS: Readonly<Record<Dialect, (words: Words) => boolean>> = {
  sqlite: (words) => ["BEGIN", "COMMIT", "END"].includes(words[0]!) || rollsBack(words),
  postgres: ([first, second, ...more]) =>
    ["BEGIN", "START", "COMMIT", "END", "ABORT"].includes(first!) ||
    (first === "PREPARE" && second === "TRANSACTION") ||
    rollsBack([first!, second ?? "", ...more]),
  mysql: (words) => rollsBack(words) || commits(words),
};

/** ROLLBACK, and not to a savepoint. */
function rollsBack([first, ...more]: Words): boolean {
  return first === "ROLLBACK" && more[0] !== "TO" && more[1] !== "TO";
}

const COMMITS: readonly string[] = [
  "BEGIN", "START", "COMMIT", "XA", "CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "LOCK",
  "UNLOCK", "GRANT", "REVOKE", "ANALYZE", "OPTIMIZE", "CHECK", "REPAIR", "FLUSH", "RESET", "CACHE",
  "INSTALL", "UNINSTALL",
];

/** With which MySQL commits what was done before. */
function commits([first, ...more]: Words): boolean {
  if (first === "SET") {
    const name = ["SESSION", "LOCAL"].includes(more[0]!) ? more[1] : more[0];
    return name === "AUTOCOMMIT" || name === "PASSWORD";
  }
  if (first === "LOAD") return more[0] === "INDEX";
  const isTemporary = (first === "CREATE" || first === "DROP") && more.includes("TEMPORARY");
  return COMMITS.includes(first!) && !isTemporary;
}

const HEAD = 4;

/** The first words of each statement, in capitals. */
function* headsOf(text: string, dialect: Dialect): Generator<Words> {
  let head: string[] = [];
  let isHead = true;
  // The body of a trigger or a function, whose statements are not run now, ends with `; END`.
  let isBody = false;
  let last = "";
  // Most texts are one statement, whose end is of no interest.
  const end = endOf(text);
  let semicolon = text.indexOf(";");
  let [pattern, run] = [new RegExp(TOKENS[dialect]), new RegExp(RUNS[dialect])];
  for (let at = 0; at < end; at = pattern.lastIndex) {
    const isRead = !isHead || head.length === HEAD;
    if (isRead) {
      if (semicolon >= 0 && semicolon < at) semicolon = text.indexOf(";", at);
      if (semicolon < 0 || semicolon >= end) break;
      // Words are of interest only where a body may begin.
      run.lastIndex = at;
      if (head[0] !== "CREATE" && run.test(text)) {
        pattern.lastIndex = run.lastIndex;
        continue;
      }
    }
    if (dialect === "postgres" && text.startsWith("/*", at)) {
      pattern.lastIndex = commentEnd(text, at);
      continue;
    }
    pattern.lastIndex = at;
    const { 0: all = "", groups } = pattern.exec(text)!;
    if (groups?.["blank"] !== undefined) continue;
    if (groups?.["opens"] !== undefined) {
      const closed = quoteEnd(text, pattern.lastIndex, all.at(-1)!);
      if (closed === undefined) [pattern, run] = [new RegExp(TORN[dialect]), /[^;]+/y];
      pattern.lastIndex = closed ?? at + all.length;
    }
    const word = groups?.["word"]?.toUpperCase();
    if (isBody) {
      if (word === "END" && last === ";") isBody = false;
    } else if (all === ";") {
      if (head.length > 0) yield head;
      [head, isHead] = [[], true];
    } else if (word === undefined) {
      // A variable, such as @@SESSION.autocommit.
      isHead &&= all === "@" || all === ".";
    } else if (isHead && head.length < HEAD) head.push(word);
    else if (word === "BEGIN" && head[0] === "CREATE") isBody = true;
    last = all;
  }
  if (head.length > 0) yield head;
}

/** Where a text ends without the blanks and semicolons behind it. */
function endOf(text: string): number {
  let end = text.length;
  while (end > 0 && /[\s;]/.test(text[end - 1]!)) end -= 1;
  return end;
}

/** Where a comment ends that may have others inside. */
function commentEnd(text: string, start: number): number {
  const pattern = /\/\*|\*\//g;
  pattern.lastIndex = start;
  for (let depth = 0; ; ) {
    const found = pattern.exec(text);
    if (found === null) return text.length;
    depth += found[0] === "/*" ? 1 : -1;
    if (depth === 0) return pattern.lastIndex;
  }
}
