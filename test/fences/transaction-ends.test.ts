import { describe, expect, it } from "vitest";
import { endsTransaction } from "../../src/dialects/transaction-ends.js";

const ends = {
  sqlite: [
    "COMMIT", ";COMMIT", "/* x */ COMMIT", "-- x\nCOMMIT", "SELECT 1; COMMIT; BEGIN", "ROLLBACK -- TO",
    "ROLLBACK; SELECT 'TO'", "end", "ROLLBACK TRANSACTION", "BEGIN EXCLUSIVE",
    "CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END; COMMIT", "SELECT $x('); COMMIT --'",
  ],
  postgres: [
    "COMMIT", ";COMMIT", "/* x */ COMMIT", "/* x /* y */ z */ COMMIT", "-- x\nCOMMIT", "SELECT 1; COMMIT",
    "SELECT 'a\\'; COMMIT", "SELECT $a$;$a$; COMMIT", "ROLLBACK -- TO", "ROLLBACK; SELECT 'TO'", "ABORT",
    "PREPARE TRANSACTION 'x'", "START TRANSACTION", "END", "COMMIT AND CHAIN",
  ],
  mysql: [
    "COMMIT", ";COMMIT", "/* x */ COMMIT", "-- x\nCOMMIT", "# x\nALTER TABLE t ADD a INT", "/*! COMMIT */",
    "/*!40000 COMMIT */", "/*M! ALTER TABLE t COMMENT 'x' */", "SELECT 1; COMMIT", "SET autocommit = 1",
    "SET @@autocommit=1", "SET SESSION autocommit=1", "SET @@SESSION.autocommit=1", "SET PASSWORD = 'x'",
    "FLUSH TABLES", "CHECK TABLE t", "REPAIR TABLE t", "RESET QUERY CACHE", "LOAD INDEX INTO CACHE t",
    "CACHE INDEX t IN c", "XA BEGIN 'x'", "BEGIN NOT ATOMIC COMMIT; END", "CREATE TABLE t (a INT)",
    "SELECT 'a\\'b'; COMMIT", "ROLLBACK",
  ],
} as const;

const goesOn = {
  sqlite: [
    "", ";", "SELECT 1", "ROLLBACK TO a", "ROLLBACK TRANSACTION TO a", "SAVEPOINT a", "SELECT '; COMMIT'",
    "SELECT [; COMMIT] FROM t", "CREATE TABLE t (a)", "SELECT CASE WHEN 1 THEN 2 END",
    "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE b SET c = CASE 1 WHEN 1 THEN 2 END; END",
    "SELECT 1 -- ; COMMIT", "SELECT 1 /* ; COMMIT",
  ],
  postgres: [
    "SELECT 1", "ROLLBACK TO a", "ROLLBACK /* x */ WORK TO SAVEPOINT a", "SELECT E'\\'; COMMIT'",
    "SELECT $$; COMMIT$$", "SELECT $a$; $$ COMMIT$a$", `SELECT "; COMMIT"`, "PREPARE a AS SELECT 1",
    "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END", "/* ; COMMIT /* */ */ SELECT 1",
    "DO $$ BEGIN PERFORM 1; END $$", "SELECT a.end, b.commit FROM a, b", "SELECT $1; SELECT $2",
  ],
  mysql: [
    "SELECT 1", "(SELECT 1)", "ROLLBACK TO a", "ROLLBACK WORK TO a", "SELECT '\\'; COMMIT'", 'SELECT "; COMMIT"',
    "SELECT `; COMMIT`", "CREATE TEMPORARY TABLE t (a INT)", "CREATE OR REPLACE TEMPORARY TABLE t (a INT)",
    "DROP TEMPORARY TABLE t", "SET @x = 1", "SET @x = @@autocommit", "LOAD DATA INFILE 'x' INTO TABLE t",
    "SELECT 2--1", "SELECT 1 # ; COMMIT", "SELECT 1 -- ; COMMIT", "INSERT INTO t VALUES ('a'';COMMIT')",
  ],
} as const;

describe.each(["sqlite", "postgres", "mysql"] as const)("first words on %s", (dialect) => {
  it.each(ends[dialect])("find the end in %j", (text) => {
    expect(endsTransaction(text, dialect)).toBe(true);
  });
  it("read a text of many megabytes", () => {
    const text = `INSERT INTO t VALUES ('${"x;COMMIT ".repeat(2_000_000)}', ${"1,".repeat(500_000)} 1)`;
    expect(endsTransaction(text, dialect)).toBe(false);
  });
  it("read on behind many rows, whatever is quoted in them", () => {
    const row = `(1, -2.5, 'a;COMMIT '';', "b;COMMIT", ?, $1, now() /* ;COMMIT */, *), `;
    const rows = row.repeat(5_000);
    const long = `'${"\u{1f600};".repeat(16_000)}', `.repeat(400);
    for (const values of [rows, long]) {
      const text = `INSERT INTO t VALUES (${values} 1)`;
      for (const more of ["", ";", "; ;\n", "; SELECT 1", "; -- COMMIT"]) {
        expect(endsTransaction(text + more, dialect)).toBe(false);
      }
      for (const more of ["; COMMIT", "; -- x\nCOMMIT;", "; SELECT 1; ROLLBACK"]) {
        expect(endsTransaction(text + more, dialect)).toBe(true);
      }
    }
  });
  it("read tens of megabytes of whatever kind, without an end of the stack", () => {
    const e = dialect === "postgres" ? "E" : "";
    const units = dialect === "sqlite" ? ["\u{1f600}"] : ["\u{1f600}", "\\'"];
    for (const unit of units) {
      const long = unit.repeat(40_000_000 / unit.length);
      for (const [open, close] of [[`${e}'`, "'"], ["/*", "*/"], ["-- ", "\n"], ["a", ""]]) {
        if (open === "a" && unit.startsWith("\\")) continue;
        const text = `SELECT ${open}${long}${close}`;
        expect(endsTransaction(`SELECT 1; ${text}; SELECT 1`, dialect), open).toBe(false);
        expect(endsTransaction(`${text}; COMMIT`, dialect), open).toBe(true);
      }
      // Nothing closes it: perhaps the server reads quotes in another way.
      expect(endsTransaction(`SELECT ${e}'${long}; COMMIT`, dialect)).toBe(true);
    }
  });
  it.each(goesOn[dialect])("find none in %j", (text) => {
    expect(endsTransaction(text, dialect)).toBe(false);
  });
});
