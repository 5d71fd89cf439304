/** E. The fence itself: several resources, a mark that is lost, a path beside the fence. */
import { NotArmedError, StaleTokenError } from "../../core/errors.js";
import { checkUpdates } from "../checkers/register.js";
import { Hand, refusalOf, tell } from "../hand.js";
import { SimulatedProcess } from "../process.js";
import { Resource } from "../resource.js";
import type { Simulation } from "../simulation.js";
import { must, mustHold, mustLose, type Scenario, type ScenarioResult } from "./scenario.js";

const TTL_MS = 10_000;
const BOTH_FENCED = ["table 2", "cache 2"] as const;

export const fenceMarkScenarios: readonly Scenario[] = [
  {
    id: 33,
    name: "two-resources",
    title: "A holder has written one of two resources when its lease goes over to the next.",
    play: (sim) => tell(sim, () => writeHalf(sim)),
    check(result) {
      mustHold(result);
      // B has written neither when A's second write comes.
      mustLose(result, ["none", "naive"]);
      must(lostOf(result, "debit") === 0, "an update of the first resource was lost");
      const arms = result.of("arm").length;
      must(result.fence !== "armed" || arms === 6, `${arms} armings instead of six`);
    },
  },
  {
    id: 34,
    name: "mark-lost",
    title: "Somebody deletes the mark of a resource while a former holder stalls.",
    play: (sim) => tell(sim, () => loseMark(sim)),
    check(result) {
      mustHold(result);
      mustLose(result, ["none", "naive"]);
      const lost = result.of("fault").find(({ what }) => what === "lose-mark");
      const after = result.of("write").filter(({ atMs }) => atMs > lost!.atMs);
      const byA = after.filter(({ client, resource }) => {
        return client === "A" && resource === "account";
      });
      must(byA.length === 1, `A wrote ${byA.length} times after the mark was lost`);
      must(byA[0]!.accepted === (result.fence !== "armed"), "A's write went as it must not");
      must(after.at(-1)!.accepted, "the newest holder could not go on");
      const ofLedger = lostOf(result, "ledger");
      const isKept = ofLedger === 0;
      must(isKept === (result.fence === "armed"), `${ofLedger} updates of the ledger were lost`);
    },
  },
  {
    id: 41,
    name: "unfenced-side-path",
    title: "A table is fenced, and the cache that is written beside it is not.",
    play: (sim) => tell(sim, () => writeBeside(sim)),
    check(result) {
      mustHoldBut(result, "cache");
      mustLose(result, ["none", "naive", "armed"]);
      for (const name of ["table", ...BOTH_FENCED]) {
        const lost = lostOf(result, name);
        must((lost === 0) === (result.fence !== "none"), `${lost} updates of ${name} were lost`);
      }
      must(lostOf(result, "cache") > 0, "the cache was right, though nothing fences it");
    },
  },
];

/** How many updates of one resource were lost. */
function lostOf({ sim }: ScenarioResult, resource: string): number {
  const { events } = sim.world.history;
  const about = events.filter((event) => "resource" in event && event.resource === resource);
  return checkUpdates(about).length;
}

/** Nothing is broken but what nobody protects. */
function mustHoldBut(result: ScenarioResult, resource: string): void {
  const others = result.violations.filter(({ invariant }) => invariant !== "I5");
  must(others.length === 0, others.map(({ text }) => text).join("; "));
  if (result.fence !== "armed") return;
  const lost = lostOf(result, resource);
  must(lost === result.lostUpdates, `${result.lostUpdates - lost} updates were lost elsewhere`);
}

async function writeHalf(sim: Simulation): Promise<void> {
  const { world, resource } = sim;
  const both = ["debit", "credit"] as const;
  const isArmed = resource.mode === "armed";
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  await a.openAll(both);
  await a.read("debit");
  await a.read("credit");
  await a.write("debit");
  a.client.process.pause();
  const b = await Hand.take(sim, await sim.client("B"), { ttlMs: TTL_MS });
  await b.openAll(both);
  const [debit, credit] = [await b.read("debit"), await b.read("credit")];
  must(debit !== credit, "B does not see that A's work is half done");
  const text = `B sees debit v${debit} and credit v${credit}: it has to finish or undo A's half`;
  world.history.add({ kind: "note", text, client: "B" });
  a.client.process.resume();
  const late = await refusalOf(a.write("credit"));
  must(late instanceof StaleTokenError === isArmed, "A's second half went otherwise than it must");
  // The one that refuses comes second: the first is armed by then, and not handed out.
  const again = await refusalOf(a.openAll(["audit", "credit"]));
  must(again instanceof StaleTokenError === isArmed, "A could arm again");
  await b.write("credit");
  await b.release();
}

async function loseMark(sim: Simulation): Promise<void> {
  const { resource } = sim;
  const isArmed = resource.mode === "armed";
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  await a.open();
  await a.read();
  a.client.process.pause();
  const b = await Hand.take(sim, await sim.client("B"), { ttlMs: TTL_MS });
  await b.open();
  await b.read();
  await b.write();
  resource.loseMark("account");
  a.client.process.resume();
  const late = await refusalOf(a.write());
  must(late instanceof NotArmedError === isArmed, "A's write went otherwise than it must");
  // Fail closed: the newest holder is refused as well, until it has raised the mark again.
  await b.read().then(
    () => must(!isArmed, "B could read without a mark"),
    (error: unknown) => must(error instanceof NotArmedError, `B's read: ${String(error)}`),
  );
  await b.open();
  await b.read();
  await b.write();
  const again = await refusalOf(a.open());
  must(again instanceof StaleTokenError === isArmed, "A could arm again under B's new mark");
  await armFirst(sim, a, b);
}

/**
 * What a lost mark costs: a former holder that arms before the newest does is taken. No update is
 * lost by it, since the newest is refused until it has armed, and reads again then.
 */
async function armFirst({ world, resource }: Simulation, a: Hand, b: Hand): Promise<void> {
  const ledger = "ledger";
  await b.open(ledger);
  await b.read(ledger);
  await b.write(ledger);
  resource.loseMark(ledger);
  await a.open(ledger);
  await a.read(ledger);
  await a.write(ledger);
  const refused = await refusalOf(b.write(ledger));
  must(
    refused instanceof NotArmedError === (resource.mode === "armed"),
    "B could write without arming again",
  );
  await b.open(ledger);
  await b.read(ledger);
  await b.write(ledger);
  const text = "without its mark the ledger took A, which is no longer the holder";
  world.history.add({ kind: "note", text });
}

async function writeBeside(sim: Simulation): Promise<void> {
  const { world, network } = sim;
  const cache = new Resource(new SimulatedProcess(world, "cache"), network, "none");
  const all = ["table", "cache", ...BOTH_FENCED];
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  const b = await sim.client("B");
  const openAndRead = async (hand: Hand): Promise<void> => {
    await hand.open("table");
    await hand.open("cache", cache);
    // The same two, where the cache is behind the fence as well.
    await hand.openAll(BOTH_FENCED);
    for (const name of all) await hand.read(name);
  };
  await openAndRead(a);
  a.client.process.pause();
  const next = await Hand.take(sim, b, { ttlMs: TTL_MS });
  await openAndRead(next);
  for (const name of all) await next.write(name);
  a.client.process.resume();
  for (const name of all) await refusalOf(a.write(name));
  const text = "the cache shows what A wrote after B had finished, and the table does not";
  if (sim.resource.mode !== "none") world.history.add({ kind: "note", text });
  await next.release();
}
