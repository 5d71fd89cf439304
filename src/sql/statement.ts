/**
 * Statements that are written once for all dialects.
 *
 * `` sql`SELECT … WHERE name = ${name}` `` is a statement with its values apart from its text, so a
 * value never becomes SQL. What differs between the dialects is a **piece** in a hole: a table of
 * our own, the store's clock, a lock. Pieces are written when the dialect is known.
 *
 * Values: text is bound as UTF-8, whatever the connection's character set; integers are exact to 64
 * bits, as `bigint` or as a `number` that is a whole one; null. A value for a column of the
 * caller's own table stands in {@link given} and is bound as it is.
 */
import { ArgumentTypeError } from "../core/errors.js";

/** A kind of SQL. */
export type Dialect = "sqlite" | "postgres" | "mysql";

/** A value of a statement. */
export type SqlValue = string | bigint | number | null;

/** What a statement is written to. */
export interface SqlWriter {
  readonly dialect: Dialect;
  /** Schema of our own tables; undefined for the one of the connection. */
  readonly schema: string | undefined;
  /** Time of the store where the statement has to bring it: on SQLite. */
  nowMs(): bigint;
  /** Adds SQL. */
  add(text: string): void;
  /** Adds a placeholder with SQL around it, and its value. */
  bind(value: unknown, before?: string, after?: string): void;
}

/** Something that writes itself into a statement. */
export interface SqlPiece {
  write(to: SqlWriter): void;
}

/** What may stand in a hole. */
export type SqlHole = SqlPiece | SqlValue;

/** A statement, or a part of one. */
export class Sql implements SqlPiece {
  readonly #strings: readonly string[];
  readonly #holes: readonly SqlHole[];

  constructor(strings: readonly string[], holes: readonly SqlHole[]) {
    this.#strings = strings;
    this.#holes = holes;
  }

  write(to: SqlWriter): void {
    this.#strings.forEach((text, i) => {
      to.add(text);
      const hole = this.#holes[i];
      if (hole === undefined) return;
      if (typeof hole === "object" && hole !== null) hole.write(to);
      else writeValue(to, hole);
    });
  }
}

/** A statement from a template. */
export function sql(strings: TemplateStringsArray, ...holes: readonly SqlHole[]): Sql {
  for (const hole of holes) if (hole === undefined) throw new TypeError("a hole is undefined");
  return new Sql(strings, holes);
}

/** Pieces with commas between them. */
export function list(pieces: readonly SqlHole[], between = ", "): Sql {
  return new Sql(["", ...pieces.slice(1).map(() => between), ""], pieces);
}

/** What each dialect has in this place. */
export function byDialect(pieces: Readonly<Record<Dialect, SqlPiece>>): SqlPiece {
  return { write: (to) => pieces[to.dialect].write(to) };
}

/** SQL as it is. Never from outside. */
export function raw(text: string): SqlPiece {
  return { write: (to) => to.add(text) };
}

/** A table of our own: `claim` is `tenure.claim` on Postgres, `tenure_claim` elsewhere. */
export function own(table: string): SqlPiece {
  return {
    write(to) {
      if (to.dialect === "postgres") to.add(`${quote(to.schema ?? "tenure", to.dialect)}.`);
      else if (to.schema !== undefined) to.add(`${quote(to.schema, to.dialect)}.`);
      to.add(quote(to.dialect === "postgres" ? table : `tenure_${table}`, to.dialect));
    },
  };
}

/**
 * A caller's identifier: one name, or several with dots between them, each quoted. Any name that
 * the store can have is safe.
 *
 * @throws TypeError for anything but text without NUL, or an empty name.
 */
export function identifier(name: unknown, option: string): SqlPiece {
  const must = "a name, or a schema and a name with a dot between";
  if (typeof name !== "string" || name.includes("\0")) {
    throw new ArgumentTypeError(option, name, must);
  }
  const names = name.split(".");
  if (names.includes("")) throw new ArgumentTypeError(option, name, must);
  return { write: (to) => to.add(names.map((one) => quote(one, to.dialect)).join(".")) };
}

/** A value for a column of the caller's table: bound as it is, and of the column's type. */
export function given(value: unknown): SqlPiece {
  return {
    write(to) {
      const isWhole = typeof value === "number" && Number.isSafeInteger(value);
      to.bind(to.dialect === "sqlite" && isWhole ? BigInt(value) : value);
    },
  };
}

/**
 * The store's clock: whole milliseconds since 1970, never a JavaScript process's wall clock.
 *
 * On servers it is the server's wall clock (on MySQL at the statement's start). On SQLite it is the
 * machine's clock: see `sqlite-clock.ts`.
 */
export const now: SqlPiece = {
  write(to) {
    if (to.dialect === "sqlite") to.bind(to.nowMs());
    else to.add(NOW[to.dialect]);
  },
};

/**
 * {@link now} for a comparison with many rows: read once, and so what an index can be asked for.
 * By itself Postgres reads the clock for each row.
 */
export const nowOnce: SqlPiece = sql`(SELECT ${now})`;

const NOW = {
  postgres: "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)",
  mysql: "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000)",
} as const;

/** Locks the rows that a SELECT finds. Nothing on SQLite, whose transactions lock the file. */
export const forUpdate: SqlPiece = lock("FOR UPDATE");
/** As {@link forUpdate}, and leaves out rows that others have locked. */
export const forUpdateSkipLocked: SqlPiece = lock("FOR UPDATE SKIP LOCKED");

function lock(text: string): SqlPiece {
  return { write: (to) => to.add(to.dialect === "sqlite" ? "" : text) };
}

function writeValue(to: SqlWriter, value: SqlValue): void {
  if (value === null) return to.add("NULL");
  const isText = typeof value === "string";
  // Numbers travel as text to servers: no parser in between makes doubles of them.
  const whole = isText ? value : BigInt(value);
  switch (to.dialect) {
    case "sqlite":
      return to.bind(whole);
    case "postgres":
      return to.bind(String(whole), "CAST(", isText ? " AS text)" : " AS bigint)");
    case "mysql":
      // With EMPTY_STRING_IS_NULL an empty text that is bound or quoted is NULL; this one is not.
      if (value === "") return to.add("X''");
      if (isText) return to.bind(hexOf(value), "UNHEX(", ")");
      return to.bind(String(whole), "CAST(", " AS SIGNED)");
  }
}

function hexOf(text: string): string {
  let hex = "";
  for (const byte of new TextEncoder().encode(text)) hex += HEX[byte]!;
  return hex;
}

const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, "0"),
);

/** A name as SQL. */
export function quote(name: string, dialect: Dialect): string {
  return dialect === "mysql"
    ? `\`${name.replaceAll("`", "``")}\``
    : `"${name.replaceAll('"', '""')}"`;
}

/** A statement as a client library takes it. */
export interface Rendered {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** What a statement is rendered for. */
export type Rendering = Pick<SqlWriter, "dialect" | "schema" | "nowMs">;

/** A statement as text and values, with the placeholders of the dialect. */
export function render(piece: SqlPiece, { dialect, schema, nowMs }: Rendering): Rendered {
  let text = "";
  const values: unknown[] = [];
  piece.write({
    dialect,
    schema,
    nowMs,
    add: (more) => void (text += more),
    bind(value, before = "", after = "") {
      values.push(value);
      text += `${before}${dialect === "postgres" ? `$${values.length}` : "?"}${after}`;
    },
  });
  return { text, values };
}
