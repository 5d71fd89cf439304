import { describe, expect, it } from "vitest";
import { schemaSql as advisorySql } from "../../src/backends/postgres-advisory/schema.js";
import { tableSql as claimsSql } from "../../src/claims/tables.js";
import { tableSql as inboxSql } from "../../src/inbox/tables.js";
import { tableDefinition } from "../../src/backends/dynamodb/table.js";
import { schemaSql as mysqlSql } from "../../src/backends/mysql/schema.js";
import { schemaSql } from "../../src/backends/postgres/schema.js";
import { Sandbox } from "./cli-process.js";

describe("migrate", () => {
  it("prints the script that the backend itself runs", async () => {
    await using box = new Sandbox();
    const print = async (...flags: string[]): Promise<string> => {
      const ended = await box.tenure(["migrate", "--print", ...flags]);
      expect(ended).toMatchObject({ code: 0, stderr: "" });
      return ended.stdout;
    };
    expect(await print("--backend", "postgres")).toBe(schemaSql());
    expect(await print("--store", "postgres://u:p@h/d", "--schema", "locks")).toBe(
      schemaSql({ schema: "locks" }),
    );
    expect(await print("--store", "postgres+advisory://u:p@h/d")).toBe(advisorySql());
    const mysql = await print("--store", "mariadb://u:p@h/d", "--schema", "locks");
    expect(mysql.trimEnd()).toBe(mysqlSql({ schema: "locks" }).trimEnd());
    expect(mysql).toContain("CREATE PROCEDURE");
  });

  it("prints the tables of a pattern", async () => {
    await using box = new Sandbox();
    const print = async (...flags: string[]): Promise<string> => {
      const ended = await box.tenure(["migrate", "--print", "--pattern", ...flags]);
      expect(ended).toMatchObject({ code: 0, stderr: "" });
      return ended.stdout;
    };
    expect(await print("claims", "--backend", "sqlite")).toBe(claimsSql("sqlite"));
    expect(await print("claims", "--store", "postgres://u:p@h/d", "--schema", "jobs")).toBe(
      claimsSql("postgres", { schema: "jobs" }),
    );
    expect(await print("inbox", "--store", "mariadb://u:p@h/d")).toBe(inboxSql("mysql"));
  });

  it("prints the table of DynamoDB in the forms of infrastructure code", async () => {
    await using box = new Sandbox();
    const print = async (...flags: string[]): Promise<string> => {
      const ended = await box.tenure(["migrate", "--print", ...flags]);
      expect(ended).toMatchObject({ code: 0, stderr: "" });
      return ended.stdout.trimEnd();
    };
    expect(await print("--backend", "dynamodb")).toBe(tableDefinition());
    expect(await print("--store", "dynamodb://locks?region=eu-west-1")).toBe(
      tableDefinition({ table: "locks" }),
    );
    expect(
      await print("--store", "dynamodb://eu-west-1/locks", "--table", "mine", "--form", "terraform"),
    ).toBe(tableDefinition({ table: "mine", form: "terraform" }));
  });

  it("refuses what it does not do, and repeats no password", async () => {
    await using box = new Sandbox();
    for (const [flags, complaint] of [
      [["--backend", "postgres"], /--print is missing/],
      [["--print", "--backend", "redis"], /"redis" has no tables to print/],
      [["--print", "--store", "mongodb://u:hush@h"], /"mongodb" has no tables to print/],
      [["--print"], /"sqlite" has no tables to print/],
      [["--print", "--backend", "postgres", "--store", "postgres://h"], /exclude each other/],
      [["--print", "--backend", "postgres", "--schema", "a$b"], /schema must be a name/],
      [["--print", "--pattern", "rows", "--backend", "postgres"], /"rows" has no tables/],
      [["--print", "--pattern", "claims", "--store", "redis://u:hush@h"], /"redis" has no tables/],
      [
        ["--print", "--pattern", "claims", "--backend", "mysql", "--schema", "a`"],
        /schema must be/,
      ],
      [["--print", "--pattern", "queue", "--backend", "mysql"], /queue is not kept in mysql/],
      [["--print", "now"], /unexpected argument "now"/],
      [["--print", "--backend", "dynamodb", "--form", "yaml"], /"yaml" is no form of a table/],
      [["--print", "--backend", "postgres", "--form", "json"], /are for --backend dynamodb/],
    ] as [string[], RegExp][]) {
      const ended = await box.tenure(["migrate", ...flags]);
      expect(ended.code, flags.join(" ")).toBe(64);
      expect(ended.stderr).toMatch(complaint);
      expect(ended.stderr).not.toContain("hush");
      expect(ended.stdout).toBe("");
    }
  });
});
