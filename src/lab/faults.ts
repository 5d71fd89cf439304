/** What chance does to the clients of a run, to its network and to its store. */
import type { Draws } from "./draws.js";
import type { SimulatedProcess } from "./process.js";
import type { Simulation, SimulatedStore } from "./simulation.js";
import type { ReplicatedPair } from "./stores/replicated-pair.js";
import type { SessionStore } from "./stores/session-store.js";

/** Something that will be done. */
export interface Fault {
  /** In words. */
  readonly text: string;
  strike(): void;
}

/** Where faults strike. */
export interface Scene {
  readonly sim: Simulation;
  readonly target: SimulatedProcess;
  readonly draws: Draws;
  /** False once everything is to heal: traps that were set do nothing any more. */
  readonly isOn: () => boolean;
  /** Name that the workers contend for. */
  readonly key: string;
}

const POINTS = ["granted", "read", "checked", "done"] as const;
const REQUESTS = ["acquire", "renew", "release", "arm", "write"] as const;
const MESSAGES = ["write", "acquire", "renew", "release", "arm", "acquire reply"] as const;

/** One fault out of many. Draws the same number of times, whatever is done with it. */
export function drawFault(scene: Scene): Fault {
  const { target, sim, draws, isOn } = scene;
  const { name } = target;
  const forMs = Math.round(draws.between(500, 30_000));
  const about = `${name} for ${forMs} ms`;
  const kinds: readonly (() => Fault)[] = [
    () => ({ text: `pause ${about}`, strike: () => target.pauseFor(forMs) }),
    () => ({ text: `suspend ${about}`, strike: () => target.suspendFor(forMs) }),
    () => ({
      text: `freeze the machine of ${about}`,
      strike: () => target.freezeMachineFor(forMs),
    }),
    () => {
      const point = draws.pick(POINTS);
      const pause = (): void => {
        if (isOn()) target.pauseFor(forMs);
      };
      const strike = (): void => target.onPoint(point, pause);
      return { text: `pause at ${point} ${about}`, strike };
    },
    () => stopAt(scene, forMs),
    () => cut(scene, forMs),
    () => {
      const jumpMs = Math.round(draws.between(-3_600_000, 3_600_000));
      const text = `set the wall clock of ${name} by ${jumpMs} ms`;
      return { text, strike: () => target.jumpWall(jumpMs) };
    },
    () => ({ text: `kill ${name}`, strike: () => target.kill() }),
    () => hold(scene, forMs),
    ...storeFaults(sim.store, scene.key),
  ];
  return draws.pick(kinds)();
}

/** Stops a client while a request of its is on the way: a moment that chance would seldom meet. */
function stopAt({ sim, target, draws, isOn }: Scene, forMs: number): Fault {
  const { name } = target;
  const what = draws.pick(REQUESTS);
  const afterMs = draws.between(0, 8);
  const isSuspend = draws.chance(0.5);
  const stop = (): void => {
    if (!isOn()) return;
    if (isSuspend) target.suspendFor(forMs);
    else target.pauseFor(forMs);
  };
  let isOver = false;
  const strike = (): void => {
    const before = sim.network.plan;
    sim.network.plan = (message) => {
      if (!isOver && message.from === name && message.what === what) {
        isOver = true;
        sim.world.after(afterMs, stop);
      }
      return before(message);
    };
  };
  const how = isSuspend ? "suspend" : "pause";
  return { text: `${how} ${name} for ${forMs} ms as it sends ${what}`, strike };
}

/** One direction or both, between a client and its store or resource. */
function cut({ sim, target, draws }: Scene, forMs: number): Fault {
  const { name } = target;
  const to = draws.pick([sim.store.find().server.name, "resource"]);
  const [from, until] = draws.chance(0.5) ? [name, to] : [to, name];
  const both = draws.chance(0.5);
  return {
    text: `cut ${from}${both ? "↔" : "→"}${until} for ${forMs} ms`,
    strike: () => {
      sim.network.cut(from, until);
      if (both) sim.network.cut(until, from);
      sim.world.after(forMs, () => {
        sim.network.heal(from, until);
        sim.network.heal(until, from);
      });
    },
  };
}

/** The next message of a kind is held up. */
function hold({ sim, target, draws, isOn }: Scene, forMs: number): Fault {
  const { name } = target;
  const what = draws.pick(MESSAGES);
  let isOver = false;
  const strike = (): void => {
    const before = sim.network.plan;
    sim.network.plan = (message) => {
      const hits = message.from === name || message.to === name;
      if (!isOver && isOn() && hits && message.what === what) {
        isOver = true;
        return { holdMs: forMs };
      }
      return before(message);
    };
  };
  return { text: `hold a ${what} of ${name} for ${forMs} ms`, strike };
}

/** What can be done to the store itself, by its kind. */
function storeFaults(store: SimulatedStore, key: string): readonly (() => Fault)[] {
  if ("failOver" in store) {
    const pair = store as ReplicatedPair;
    return [() => ({ text: "fail over to the replica", strike: () => pair.failOver() })];
  }
  if ("changeLeader" in store) {
    const session = store as SimulatedStore & Pick<SessionStore, "changeLeader" | "revokeEarly">;
    return [
      () => ({ text: "let another member lead", strike: () => session.changeLeader() }),
      () => ({
        text: `end the session behind ${key} early`,
        strike: () => session.revokeEarly(key),
      }),
    ];
  }
  return [];
}
