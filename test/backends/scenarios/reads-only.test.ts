/**
 * A server that answers reads and refuses writes, under a leader. On Redis no look at a lease is
 * answered then: each of them writes, so that no replica that is behind can answer it.
 */
import { expect, it, onTestFinished } from "vitest";
import { Tenure } from "../../../src/core/tenure.js";
import { election } from "../../../src/election/election.js";
import { platform } from "../../../src/platform/index.js";
import { describeOn, type Program } from "../../servers/find.js";
import { mariadbProgram, startMariadb } from "../../servers/mariadb.js";
import { postgresProgram, startPostgres } from "../../servers/postgres.js";
import { BACKENDS, type Kind } from "../every-store/backends.js";

const TTL_MS = 2_000;
const LIMIT_MS = 20_000;

/** A server whose writes can be refused. */
interface Refusing {
  readonly url: string;
  refuse(writes: boolean): Promise<unknown>;
  dispose(): unknown;
}

const STORES: readonly [Kind, Program, () => Promise<Refusing>][] = [
  [
    "postgres",
    postgresProgram,
    async () => {
      const server = await startPostgres();
      const refuse = async (writes: boolean): Promise<unknown> => {
        await server.query(`ALTER SYSTEM SET default_transaction_read_only = ${writes}`);
        return server.query("SELECT pg_reload_conf()");
      };
      return { url: server.url, refuse, dispose: () => server.dispose() };
    },
  ],
  [
    "mysql",
    mariadbProgram,
    async () => {
      const server = await startMariadb();
      const refuse = (writes: boolean): Promise<unknown> =>
        server.query(`SET GLOBAL read_only = ${Number(writes)}`);
      return { url: server.url, refuse, dispose: () => server.dispose() };
    },
  ],
];

for (const [kind, program, start] of STORES) {
  describeOn(program, `${kind} that only reads`, () => {
    it("has its leader step down at the deadline, which no read puts off (case 6)", async () => {
      const server = await start();
      onTestFinished(async () => void (await server.dispose()));
      const tenure = await Tenure.open(await BACKENDS[kind](server.url), platform());
      onTestFinished(() => tenure.close());
      const leaders = election(tenure, "job", { ttl: TTL_MS });
      const term = await leaders.campaign();
      const revoked = new Promise<number>((resolve) => {
        term.signal.addEventListener("abort", () => resolve(performance.now()), { once: true });
      });
      const seen: (bigint | undefined)[] = [];
      let isOver = false;
      onTestFinished(() => void (isOver = true));
      const reading = (async () => {
        while (!isOver) seen.push((await leaders.leader())?.term);
      })();
      // Of a test that has failed it is not awaited.
      reading.catch(() => undefined);
      const refusedMs = performance.now();
      await server.refuse(true);
      const before = seen.length;
      const lastedMs = (await revoked) - refusedMs;
      expect(seen.slice(before)).toContain(term.term);
      // One renewal may have been under way; what a busy machine adds is far below a second TTL.
      expect(lastedMs).toBeLessThan(2 * TTL_MS);
      expect(() => term.assertLeading()).toThrow();
      isOver = true;
      await reading;
      await server.refuse(false);
      const next = await leaders.campaign({ wait: LIMIT_MS });
      expect(next.term).toBeGreaterThan(term.term);
      await next.resign();
    });
  });
}
