/**
 * Statements for Postgres that sessions keep prepared: the text is written once, and with each call
 * only the values, as SQL beside it.
 */
import type { Sql, SqlPiece, SqlWriter } from "./statement.js";

/** A value of such a statement. */
export type KeptValue = string | bigint | number | null;

/** A statement, and its values as SQL. */
export interface RenderedKept {
  /** With `$1`, `$2`, each in a cast to its type. */
  readonly text: string;
  readonly args: readonly string[];
}

/** Holes of a statement, by the names of what goes into them; one name may stand in several. */
export interface Holes<N extends string> {
  readonly text: (name: N) => SqlPiece;
  readonly whole: (name: N) => SqlPiece;
}

/** A statement with its values, which become SQL once the schema is known. */
export interface FilledSql {
  in(schema: string | undefined): RenderedKept;
}

interface Written<N extends string> {
  readonly text: string;
  /** What goes into `$1`, `$2` and so on. */
  readonly names: readonly N[];
}

/** A statement whose text is the same each time. Values stand in its holes alone. */
export class KeptSql<N extends string> {
  readonly #piece: Sql;
  readonly #written = new Map<string | undefined, Written<N>>();

  constructor(write: (holes: Holes<N>) => Sql) {
    this.#piece = write({
      text: (name) => hole(name, " AS text)"),
      whole: (name) => hole(name, " AS bigint)"),
    });
  }

  /** The statement with these values. */
  with(values: Readonly<Record<N, KeptValue>>): FilledSql {
    return {
      in: (schema) => {
        const { text, names } = this.#writtenFor(schema);
        return { text, args: names.map((name) => literalOf(values[name])) };
      },
    };
  }

  #writtenFor(schema: string | undefined): Written<N> {
    let written = this.#written.get(schema);
    if (written === undefined) {
      written = write<N>(this.#piece, schema);
      this.#written.set(schema, written);
    }
    return written;
  }
}

function hole(name: string, after: string): SqlPiece {
  return { write: (to) => to.bind(name, "CAST(", after) };
}

function write<N extends string>(piece: SqlPiece, schema: string | undefined): Written<N> {
  let text = "";
  const names: N[] = [];
  const to: SqlWriter = {
    dialect: "postgres",
    schema,
    nowMs: () => 0n,
    add: (more) => void (text += more),
    bind(name, before = "", after = "") {
      if (!names.includes(name as N)) names.push(name as N);
      text += `${before}$${names.indexOf(name as N) + 1}${after}`;
    },
  };
  piece.write(to);
  return { text, names };
}

/** What means the same between quotes whatever the settings, once quotes in it are doubled. */
const PLAIN = /^[ -[\]-~]*$/;

/**
 * A value as SQL that means the same whatever the connection's settings and character set: it is
 * ASCII, and a backslash stands in a literal of the kind in which it always escapes.
 */
function literalOf(value: KeptValue): string {
  if (value === null) return "NULL";
  if (typeof value !== "string") return `'${BigInt(value)}'`;
  const quoted = value.replaceAll("'", "''");
  return PLAIN.test(value) ? `'${quoted}'` : `E'${escaped(quoted)}'`;
}

function escaped(quoted: string): string {
  return quoted.replaceAll("\\", "\\\\").replaceAll(/[^\0-\x7f]/gu, (char) => {
    return `\\U${char.codePointAt(0)!.toString(16).padStart(8, "0")}`;
  });
}
