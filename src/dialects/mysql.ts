/** Names and texts in SQL for MySQL and MariaDB. */
import { ArgumentRangeError, ArgumentTypeError } from "../core/errors.js";

/** A name as SQL. */
export function quoteIdentifier(name: string): string {
  return `\`${name.replaceAll("`", "``")}\``;
}

/**
 * A schema name as given.
 *
 * @throws TypeError or RangeError when MySQL cannot have it.
 */
export function checkSchema(schema: unknown, option = "schema"): string {
  // Characters beyond U+FFFF are none that an identifier may have.
  const unfit = /[\0-\x1f\x7f]|\p{Surrogate}|[\u{10000}-\u{10ffff}]/u;
  if (typeof schema !== "string" || unfit.test(schema)) {
    throw new ArgumentTypeError(option, schema, "a name without control characters and emoji");
  }
  if (schema.length < 1 || schema.length > 64) {
    throw new ArgumentRangeError(option, schema, "1 to 64 characters");
  }
  if (schema.endsWith(" ")) {
    throw new ArgumentRangeError(option, schema, "a name without a space at its end");
  }
  if (/^(mysql|sys|information_schema|performance_schema)$/i.test(schema)) {
    throw new ArgumentRangeError(option, schema, "none of the server's own");
  }
  return schema;
}

/**
 * A text as hexadecimal digits of its UTF-8, as `UNHEX` reads them: arrives byte by byte, whatever
 * the character set and collation of connection and schema.
 */
export function toHex(text: string): string {
  let hex = "";
  for (const byte of new TextEncoder().encode(text)) hex += byte.toString(16).padStart(2, "0");
  return hex;
}

/** The text of hexadecimal digits, as `HEX` writes them. @throws TypeError for other bytes. */
export function fromHex(digits: unknown): string {
  const bytes = Uint8Array.from(String(digits).match(/../g) ?? [], (pair) => parseInt(pair, 16));
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}

/** A text as SQL, byte by byte, whatever the connection's character set. */
export function hexLiteral(text: string): string {
  return `X'${toHex(text)}'`;
}

/** What is said around a transaction. */
export interface TransactionTexts {
  readonly before: readonly string[];
  readonly after: readonly string[];
}

/** How a transaction runs. */
export interface TransactionTerms {
  /** Whole seconds: for a lock, and for the next statement to come. */
  readonly waitS: number;
  /** Seconds for a statement to end; MySQL has no such setting. */
  readonly statementS: number;
  readonly isolation: "READ-COMMITTED" | "REPEATABLE-READ";
  readonly isReadOnly: boolean;
  /** More assignments, of variables. */
  readonly set?: string;
  readonly reset?: string;
}

/**
 * Settings of the session for one transaction, in one statement, and what puts the old ones back.
 * With autocommit off, what comes after an end of the transaction that nobody asked for is never
 * committed. The isolation is that of the next transaction alone.
 */
export function transactionTexts(terms: TransactionTerms): TransactionTexts {
  const { waitS, statementS, isolation, isReadOnly, set = "", reset = "" } = terms;
  const more = (text: string): string => (text === "" ? "" : `, ${text}`);
  // For the session: of several statements that each commit, all are to have it.
  const readOnly = (name: string): string =>
    `, @tenure_read_only = @@SESSION.${name}, SESSION ${name} = ${isReadOnly ? 1 : 0}`;
  const asBefore = (name: string): string => `, SESSION ${name} = @tenure_read_only`;
  return {
    before: [
      `SET @tenure_wait = @@SESSION.wait_timeout,
        @tenure_lock = @@SESSION.innodb_lock_wait_timeout,
        @tenure_autocommit = @@SESSION.autocommit, SESSION wait_timeout = ${waitS},
        SESSION innodb_lock_wait_timeout = ${waitS}, SESSION autocommit = 0${more(set)}
        ${MARIADB(`, @tenure_statement = @@SESSION.max_statement_time,
          SESSION max_statement_time = ${statementS}${readOnly("tx_read_only")},
          @@tx_isolation = '${isolation}'`)}
        ${MYSQL(`${readOnly("transaction_read_only")},
          @@transaction_isolation = '${isolation}'`)}`,
    ],
    after: [
      `SET SESSION wait_timeout = @tenure_wait, SESSION innodb_lock_wait_timeout = @tenure_lock,
        SESSION autocommit = @tenure_autocommit${more(reset)}
        ${MARIADB(`, SESSION max_statement_time = @tenure_statement${asBefore("tx_read_only")}`)}
        ${MYSQL(asBefore("transaction_read_only"))}`,
    ],
  };
}

/** Hexadecimal digits as bytes, also none: by EMPTY_STRING_IS_NULL an empty text is NULL. */
export const BYTES = "COALESCE(UNHEX(?), X'')";

/** A comment to MySQL. */
const MARIADB = (text: string): string => `/*M! ${text} */`;
/** A comment to MariaDB. */
const MYSQL = (text: string): string => `/*!80000 ${text} */`;
