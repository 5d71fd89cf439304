/**
 * Statements that are kept prepared: the text is written once, and with each call only the values.
 * On Postgres these are SQL beside the text, on SQLite they are bound.
 */
import { render, type Sql, type SqlPiece, type SqlWriter } from "./statement.js";

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

/** A statement with its values, for whichever store it comes to. */
export interface FilledSql {
  /** On Postgres, with the tables in this schema. */
  in(schema: string | undefined): RenderedKept;
  /** On SQLite, whose clock stands at `nowMs`. */
  onSqlite(nowMs: bigint): { readonly text: string; readonly values: readonly BoundValue[] };
}

/** A value as SQLite is given it. */
type BoundValue = string | bigint | null;

interface Written<N extends string> {
  readonly text: string;
  /** What goes into `$1`, `$2` and so on; into each `?` in turn, where a number is the time. */
  readonly names: readonly (N | bigint)[];
}

/** A statement whose text is the same each time. Values stand in its holes alone. */
export class KeptSql<N extends string> {
  readonly #piece: Sql;
  readonly #written = new Map<string | undefined, Written<N>>();
  #onSqlite: Written<N> | undefined;

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
        return { text, args: names.map((name) => literalOf(values[name as N])) };
      },
      onSqlite: (nowMs) => {
        const { text, names } = (this.#onSqlite ??= writeOnSqlite<N>(this.#piece));
        const bound = (name: N | bigint): BoundValue => {
          const value: KeptValue = typeof name === "bigint" ? nowMs : values[name];
          return typeof value === "number" ? BigInt(value) : value;
        };
        return { text, values: names.map(bound) };
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

/** As for any statement, with the names in place of values, and a number in place of the time. */
function writeOnSqlite<N extends string>(piece: SqlPiece): Written<N> {
  const { text, values } = render(piece, {
    ...{ dialect: "sqlite", schema: undefined },
    nowMs: () => 0n,
  });
  return { text, names: values as (N | bigint)[] };
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
