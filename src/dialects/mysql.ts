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
