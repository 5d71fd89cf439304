import { describe, expect, it } from "vitest";
import { mysql, schemaSql } from "../../../src/backends/mysql/open.js";
import type { MysqlPool } from "../../../src/drivers/mysql/client.js";
import { connectOwn } from "../../../src/drivers/mysql/database.js";
import { explainMysql, isContention } from "../../../src/drivers/mysql/errors.js";

const fromServer = (errno: number, sqlState = "HY000"): Error =>
  Object.assign(new Error("told by the server"), { errno, sqlState, code: "ER_SOME" });
const fromNode = (facts: object, text = "told by Node"): Error =>
  Object.assign(new Error(text), { errno: -111, ...facts });
const about = { during: "do it", backend: "mysql" } as const;

describe("errors of mysql2", () => {
  it.each([1020, 1205, 1213, 3572])("take %i for contention", (number) => {
    expect(isContention(fromServer(number))).toBe(true);
    expect(explainMysql(fromServer(number), about)).toMatchObject({ family: "unavailable" });
  });

  it.each([1142, 1146, 1305, 1045, 1049, 1665])("take %i for something to mend", (number) => {
    expect(isContention(fromServer(number))).toBe(false);
    const explained = explainMysql(fromServer(number), about);
    expect(explained).toMatchObject({ family: "unavailable", retryable: false });
  });

  it.each([1290, 1792, 1040, 1114, 1021, 1062])("take %i for a refusal that may pass", (number) => {
    expect(isContention(fromServer(number))).toBe(false);
    const explained = explainMysql(fromServer(number), about);
    expect(explained).toMatchObject({ family: "unavailable", retryable: true });
  });

  it.each([1317, 1927, 1053, 1969, 3024])("leave the outcome open after %i", (number) => {
    expect(explainMysql(fromServer(number), about)).toMatchObject({ family: "unknown" });
    const unsent = explainMysql(fromServer(number), { ...about, unsent: true });
    expect(unsent).toMatchObject({ family: "unavailable" });
  });

  it("know what was never sent from what may have been", () => {
    const refused = fromNode({ code: "ECONNREFUSED", syscall: "connect" });
    const several = Object.assign(new AggregateError([refused, refused]), { code: "ECONNREFUSED" });
    const closed = new Error("Can't add new command when connection is in closed state");
    for (const error of [refused, several, closed, new Error("Pool is closed.")]) {
      expect(explainMysql(error, about)).toMatchObject({ family: "unavailable" });
    }
    const lost = fromNode({ code: "PROTOCOL_CONNECTION_LOST" });
    const reset = fromNode({ code: "ECONNRESET", syscall: "read" });
    for (const error of [lost, reset, new Error("?"), "text"]) {
      expect(explainMysql(error, about)).toMatchObject({ family: "unknown" });
    }
  });
});

describe("a connection of our own", () => {
  it("is given up when a statement was broken off: its transaction may still be open", async () => {
    let isDestroyed = false;
    const fake = {
      on: () => undefined,
      once: (event: string, listener: () => void) => event === "connect" && listener(),
      execute: (_: object, done: (error: Error) => void) => done(fromServer(1317)),
      destroy: () => void (isDestroyed = true),
    };
    const connection = await connectOwn(() => fake, {});
    await expect(connection.query("CALL x()")).rejects.toThrow("told by the server");
    expect(isDestroyed).toBe(true);
    expect(connection.isOpen).toBe(false);
    await expect(connection.query("CALL x()")).rejects.toMatchObject({ family: "unavailable" });
  });
});

describe("what is handed over", () => {
  const nothing = {} as MysqlPool;
  const single = { execute: () => undefined, end: () => undefined, config: {} } as never;

  it.each([
    ["no pool", () => mysql(nothing), /^pool must be a pool of mysql2/],
    ["a single connection", () => mysql(single), /^pool must be a pool of mysql2/],
    ["another scheme", () => mysql("postgres://u:secret@h/d"), /^url must be.*got "postgres:…"/],
    ["no URL", () => mysql("secret"), /^url must be a URL such as mysql:/],
    ["a schema of the server", () => mysql("mysql://h", { schema: "MySQL" }), /^schema must be none/],
    ["a long schema", () => mysql("mysql://h", { schema: "x".repeat(65) }), /^schema must be 1 to 64/],
    ["no schema", () => mysql("mysql://h", { schema: "" }), /^schema must be 1 to 64/],
    ["a blank", () => mysql("mysql://h", { schema: "a " }), /^schema must be a name without a space/],
    ["a NUL", () => mysql("mysql://h", { schema: "a\0" }), /^schema must be a name without control/],
    ["migrate", () => mysql("mysql://h", { migrate: 1 as never }), /^migrate must be true or false/],
    ["storeId", () => mysql("mysql://h", { storeId: "" }), /^storeId must be 1 to 512/],
  ])("is refused before any I/O: %s", async (_, asked, message) => {
    const error: unknown = await asked().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "TENURE_INVALID_ARGUMENT" });
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).not.toContain("u:secret");
  });

  it("is quoted where it is a name in SQL", () => {
    expect(schemaSql({ schema: "a`; DROP TABLE b; --" })).toContain("USE `a``; DROP TABLE b; --` $$");
  });
});
