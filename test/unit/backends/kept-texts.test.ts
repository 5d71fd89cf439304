import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { PROCEDURE_NAMES } from "../../../src/backends/mysql/procedures.js";
import { SCHEMA_STATEMENTS } from "../../../src/backends/mysql/schema.js";
import * as advisory from "../../../src/backends/postgres-advisory/schema.js";
import * as rows from "../../../src/backends/postgres/schema.js";
import * as mysqlFence from "../../../src/fences/mysql/schema.js";
import * as postgresFence from "../../../src/fences/postgres/schema.js";

/**
 * A database keeps functions as they were when they were made. So a change reaches those that are
 * there only under another revision, version or name: raise it, and then write down the new text.
 */
const digest = (...texts: readonly string[]): string =>
  createHash("sha256").update(texts.join("\n")).digest("hex").slice(0, 12);

const procedure = (name: string): string =>
  SCHEMA_STATEMENTS.find((text) => text.startsWith(`CREATE PROCEDURE IF NOT EXISTS ${name}(`))!;

describe("what databases keep changes only together with how it is told apart", () => {
  it.each([
    ["leases on Postgres", rows.FUNCTIONS_REVISION, rows.functionTexts("s"), [2, "c3819279d4bb"]],
    [
      "session locks on Postgres",
      advisory.FUNCTIONS_REVISION,
      advisory.functionTexts("s"),
      [1, "2447fb02c89a"],
    ],
    [
      "the fence on Postgres",
      postgresFence.SCHEMA_VERSION,
      [postgresFence.fenceTablesSql("s")],
      [1, "6073dca3da87"],
    ],
    [
      "the fence on MySQL",
      mysqlFence.SCHEMA_VERSION,
      mysqlFence.FENCE_STATEMENTS,
      [1, "d516dfd72c60"],
    ],
  ] as const)("%s", (_, revision, texts, known) => {
    expect([revision, digest(...texts)]).toEqual(known);
  });

  it("leases on MySQL", () => {
    expect(PROCEDURE_NAMES.map((name) => [name, digest(procedure(name))])).toEqual([
      ["tenure_acquire_2", "d3cfadcfe930"],
      ["tenure_renew_2", "dead29c720b1"],
      ["tenure_release_2", "e688833a681a"],
      ["tenure_release_many_2", "3d6444638d50"],
      ["tenure_sweep_1", "9ed20d57cc30"],
    ]);
  });
});
