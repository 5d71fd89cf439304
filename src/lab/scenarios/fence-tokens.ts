/** E. The fence itself: tokens that are borrowed, and the places where their text misleads. */
import { StaleTokenError, TokenConflictError } from "../../core/errors.js";
import { formatToken, parseToken, toToken } from "../../core/token.js";
import { Hand, refusalOf, tell } from "../hand.js";
import type { Simulation } from "../simulation.js";
import type { LeaseTable } from "../stores/lease-table.js";
import { must, mustHold, mustLose, type Scenario } from "./scenario.js";

const TTL_MS = 10_000;

/** The last token before each edge: of decimal text, of 32 bits, of a double. */
const EDGES: Readonly<Record<string, bigint>> = {
  "9 and 10": 9n,
  "the edge of 32 bits": 2n ** 31n - 1n,
  "the edge of a double": 2n ** 53n,
};
/** Sets the store's clock so far back that tokens are its counter alone. */
const NO_FLOOR_MS = -4_000_000_000_000;

export const fenceTokenScenarios: readonly Scenario[] = [
  {
    id: 35,
    name: "borrowed-token",
    title: "A job queued with a token runs after the takeover, and its holder asks for the token.",
    play: (sim) => tell(sim, () => borrow(sim)),
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      const late = result.of("write").filter(({ client }) => client === "J");
      must(late.length === 1, `the late job wrote ${late.length} times`);
      must(late[0]!.accepted === (result.fence === "none"), "the late job went as it must not");
    },
  },
  {
    id: 36,
    name: "token-encoding",
    title: "Tokens pass from 9 to 10, from 31 bits to 32, and beyond what a double can tell apart.",
    play: (sim) => tell(sim, () => passEdges(sim)),
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      const isFenced = result.fence !== "none";
      for (const [name, last] of Object.entries(EDGES)) {
        const tokens = result.of("grant").filter(({ key }) => key === name);
        const seen = tokens.map(({ token }) => token).join(", ");
        must(seen === `${last}, ${last + 1n}`, `the tokens were ${seen}`);
        const writes = result.of("write").filter(({ resource }) => resource === name);
        const [newer, older] = writes;
        must(writes.length === 2, `${writes.length} writes of ${name} instead of two`);
        must(newer!.accepted, `the newer of ${seen} was refused`);
        must(older!.accepted !== isFenced, `the older of ${seen} went as it must not`);
      }
    },
  },
];

async function borrow(sim: Simulation): Promise<void> {
  const { resource } = sim;
  const isArmed = resource.mode === "armed";
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  const { token } = a;
  // The job has its own process, and of the lease what came with it.
  const worker = await sim.client("J");
  const job = await resource.open(worker.process, a.bearer, "account");
  const base = await job.read();
  a.client.process.pause();
  const b = await Hand.take(sim, await sim.client("B"), { ttlMs: TTL_MS });
  await b.open();
  await b.read();
  await b.write();
  a.client.process.resume();
  must(a.token === token, `A's token moved from ${token} to ${a.token}`);
  await refusalOf(job.write(base));
  const second = await refusalOf(resource.open(worker.process, a.bearer, "account"));
  must(second instanceof StaleTokenError === isArmed, "a second late job could arm");
  // Whoever asks the store for "the token of this name" is given B's.
  const shown = await a.client.tenure.inspect("job");
  const borrowed = { ...a.bearer, token: toToken(shown!.token!) };
  must(borrowed.token === b.token, "the store does not show B's token");
  const third = await refusalOf(resource.open(a.client.process, borrowed, "account"));
  must(third instanceof TokenConflictError === isArmed, "A could arm with B's token");
  await b.release();
}

async function passEdges(sim: Simulation): Promise<void> {
  const store = sim.store.find().model as LeaseTable;
  store.server.jumpWall(NO_FLOOR_MS);
  const [a, b] = [await sim.client("A"), await sim.client("B")];
  for (const [name, last] of Object.entries(EDGES)) {
    store.take(name, { counter: last - 1n });
    const older = await Hand.take(sim, a, { key: name, ttlMs: TTL_MS });
    await older.open(name);
    await older.read(name);
    a.process.pause();
    const newer = await Hand.take(sim, b, { key: name, ttlMs: TTL_MS });
    // As it travels between two processes.
    const text = formatToken(newer.token);
    must(parseToken(text) === newer.token, `${text} was not read as it was written`);
    must(newer.token > older.token, `${newer.token} is not newer than ${older.token}`);
    await newer.open(name);
    await newer.read(name);
    await newer.write(name);
    a.process.resume();
    await refusalOf(older.write(name));
    await newer.release();
  }
}
