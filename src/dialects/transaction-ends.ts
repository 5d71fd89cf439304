/**
 * Statements that begin or end a transaction, found by their first words: for a clear word before
 * anything is sent. Such a list is never complete (a procedure may commit on MySQL); what decides
 * is whether it is still the same transaction when it is to be committed.
 */

/** A kind of SQL. */
type Dialect = "sqlite" | "postgres" | "mysql";

// A doubled quote is two texts, one after the other.
const QUOTED = `'[^']*'|"[^"]*"`;
const DOLLARS = String.raw`(?<dollar>\$(?:[^\W\d]\w*)?\$)[\s\S]*?(?:\k<dollar>|$)`;
const escaped = (quote: string): string =>
  String.raw`${quote}[^${quote}\\]*(?:\\[\s\S][^${quote}\\]*)*${quote}`;

/** Blanks and comments; what is quoted; a word; a semicolon; any other character. */
const TOKENS: Readonly<Record<Dialect, RegExp>> = {
  sqlite: tokens(
    String.raw`\s+|--[^\n]*|/\*[\s\S]*?(?:\*/|$)`,
    // The name of a parameter may have anything but blanks in brackets.
    `${QUOTED}|\`[^\`]*\`|\\[[^\\]]*\\]|[$@#:][\\w$:]+\\([^\\s)]*\\)`,
  ),
  // Comments may stand in one another: the outer one is closed below.
  postgres: tokens(String.raw`\s+|--[^\n]*`, `[eE]${escaped("'")}|${QUOTED}|${DOLLARS}`),
  // What stands in /*! or /*M! is run; its end is then a blank.
  mysql: tokens(
    String.raw`\s+|--(?=\s|$)[^\n]*|#[^\n]*|/\*M?!\d*|/\*(?!M?!)[\s\S]*?(?:\*/|$)|\*/`,
    `${escaped("'")}|${escaped('"')}|\`[^\`]*\``,
  ),
};

function tokens(blank: string, quoted: string): RegExp {
  return new RegExp(
    String.raw`(?<blank>${blank})|(?<quoted>${quoted})|(?<word>[\p{L}_][\p{L}\p{N}_$]*)|[\s\S]`,
    "uy",
  );
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
  let semicolon = text.indexOf(";");
  const pattern = new RegExp(TOKENS[dialect]);
  for (let at = 0; at < text.length; at = pattern.lastIndex) {
    if (dialect === "postgres" && text.startsWith("/*", at)) {
      pattern.lastIndex = commentEnd(text, at);
      continue;
    }
    pattern.lastIndex = at;
    const { 0: all = "", groups } = pattern.exec(text)!;
    if (groups?.["blank"] !== undefined) continue;
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
    const isRead = !isHead || head.length === HEAD;
    if (isRead && semicolon >= 0 && semicolon < at) semicolon = text.indexOf(";", at);
    if (isRead && semicolon < 0) break;
  }
  if (head.length > 0) yield head;
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
