/** Stores that are wrong on purpose. */
import { singleStore, type Fitting, type MakeStore } from "../simulation.js";
import type { TableFlaw } from "../stores/lease-table.js";
import { sessionStore, type SessionFlaw } from "../stores/session-store.js";
import { SHORT_RUN, type Variant, type VariantRun } from "./variant.js";

const REVOKE_EVERY_MS = 2_000;
const SILENT_MS = 500;
const DIES_AT = 8;
const PLAIN: VariantRun = { ...SHORT_RUN, fence: "none", elects: false };

function table(
  name: TableFlaw,
  title: string,
  breaks: Variant["breaks"],
  more: Partial<VariantRun> = {},
  defencesOff = "the fence",
): Variant {
  const control = { ...PLAIN, ...more, store: singleStore() };
  const flawed = { ...control, store: singleStore({ flaw: name }) };
  return { name, title, where: "store", defencesOff, breaks, flawed, control };
}

/**
 * Ends the session behind the name now and then, so that attempts meet ended sessions. Not when the
 * holder has been silent for long: that would end what such a session was granted, too.
 */
function revoking(flaw?: SessionFlaw): MakeStore {
  return (world) => {
    const store = sessionStore(world, flaw);
    const revoke = (): void => {
      const last = world.history.of("grant", "extend").at(-1);
      if (last !== undefined && world.nowMs - last.atMs < SILENT_MS) store.revokeEarly("job");
      world.after(REVOKE_EVERY_MS, revoke);
    };
    world.after(REVOKE_EVERY_MS, revoke);
    return store;
  };
}

/** Every so often a client dies as soon as it is granted something. */
const mortal: Fitting = {
  backend: (inner, process) => {
    let granted = 0;
    return {
      ...inner,
      acquire: async (request, call) => {
        const answer = await inner.acquire(request, call);
        if ("grant" in answer && ++granted % DIES_AT === 0) process.kill();
        return answer;
      },
    };
  },
};

export const storeVariants: readonly Variant[] = [
  table("release-any", "A release does not compare the holder.", ["I2"]),
  table("renew-any", "A renewal does not compare the holder.", ["I2"]),
  table("renew-recreates", "A renewal makes a lease that is gone anew.", ["I3"]),
  table("token-dies", "The token counter goes with the lease's record.", ["I3"]),
  table("renewal-moves-token", "A renewal draws a new token.", ["I3"]),
  table("no-expiry", "A lease never ends by itself.", ["I11"]),
  table(
    "value-then-expiry",
    "The lease is set by one command and its time by a second, which may never come.",
    ["I11"],
  ),
  {
    name: "dead-lease-grant",
    title: "A session that has ended while its holder waited is granted the name.",
    where: "store",
    defencesOff: "the fence",
    breaks: ["I11"],
    flawed: { ...PLAIN, store: revoking("dead-lease-grant"), fitting: mortal },
    control: { ...PLAIN, store: revoking(), fitting: mortal },
  },
];
