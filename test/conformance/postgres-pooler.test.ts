import { afterAll, expect, test } from "vitest";
import { runConformance } from "../../src/testing/conformance.js";
import { describeOn, findBinary } from "../servers/find.js";
import { pgbouncerProgram, startPgBouncer } from "../servers/pgbouncer.js";
import { startPostgres } from "../servers/postgres.js";
import { openBackend } from "../../src/testing/trial.js";
import { postgresSubject } from "./postgres-subject.js";
import { vitestRunner } from "./vitest-runner.js";

const isHere = findBinary(pgbouncerProgram) !== undefined;
const server = isHere ? await startPostgres() : undefined;
const pooler = isHere ? await startPgBouncer(server!) : undefined;
afterAll(async () => {
  await pooler?.dispose();
  await server?.dispose();
});

describeOn(pgbouncerProgram, "through a pooler that changes sessions", async () => {
  const subject = postgresSubject(server!, () => pooler!.url, { library: "pg" });
  await runConformance(subject, vitestRunner());

  test("notices would reach anybody, so the manifest says poll (case 38)", async () => {
    const store = await subject.open();
    const backend = await openBackend(store);
    expect(backend.manifest.waiting).toBe("poll");
    expect(backend.waiting.kind).toBe("poll");
    await backend.close();
    await store.dispose?.();
  });
});
