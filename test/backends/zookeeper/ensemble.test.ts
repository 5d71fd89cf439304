import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { connect } from "../../../src/connect.js";
import { type LeaseLostError, UnavailableError } from "../../../src/core/errors.js";
import { describeOn } from "../../servers/find.js";
import {
  startEnsemble,
  zookeeperProgram,
  type ZookeeperEnsemble,
  type ZookeeperServer,
} from "../../servers/zookeeper.js";
import { at, freshName, tenureOn, until } from "./rig.js";

/** Longer than an ensemble takes to find another leader on a busy machine. */
const PATIENT_MS = 24_000;

describeOn(zookeeperProgram, "zookeeper ensemble in trouble", () => {
  let ensemble: ZookeeperEnsemble;
  beforeAll(async () => {
    // Members tell their leader of sessions every 250 ms, and miss it after two seconds.
    ensemble = await startEnsemble(3, { tickTime: 500, syncLimit: 4, initLimit: 6 });
  }, 60_000);
  afterAll(() => ensemble.dispose());

  /** One tenure for each member, each with a lease. */
  async function holders() {
    return Promise.all(
      ensemble.members.map(async (_, first) => {
        const { hosts } = ensemble;
        const tenure = await tenureOn([...hosts.slice(first), ...hosts.slice(0, first)]);
        return tenure.acquire(freshName(), { ttl: PATIENT_MS });
      }),
    );
  }

  async function anotherLeads(than: ZookeeperServer): Promise<void> {
    await until("another member leads", async () => {
      const leader = await ensemble.leader().catch(() => undefined);
      return leader !== undefined && leader !== than;
    });
  }

  it.each(["freeze", "kill"] as const)(
    "loses nothing when its leader stops: %s (scenario 26)",
    async (how) => {
      const leases = await holders();
      const leader = await ensemble.leader();
      await leader[how]();
      onTestFinished(async () => {
        if (how === "freeze") await leader.thaw();
        else await leader.start();
        // A leader that was frozen says for a while that it still leads.
        await until("it follows the other one", async () => {
          return (await leader.mode().catch(() => "none")) === "follower";
        });
      });
      await anotherLeads(leader);
      // Each renewal shows holder and token in the ensemble as it is now.
      for (const lease of leases) {
        await until("the lease is renewed", () =>
          lease.renew().then(
            () => true,
            () => false,
          ),
        );
        lease.assertHeld();
      }
      const epochs = new Set(leases.map(({ storeEpoch }) => storeEpoch));
      const later = await (await tenureOn(ensemble.hosts)).acquire(freshName(), { ttl: 9_000 });
      expect(epochs.has(later.storeEpoch)).toBe(false);
      await Promise.all(leases.map((lease) => lease.release()));
    },
    60_000,
  );

  it("tells a holder at a cut-off member before its leader lets the next one in", async () => {
    const [follower] = await ensemble.followers();
    const link = await ensemble.linkToLeader(follower!);
    const name = freshName();
    const ttlMs = 4_500;
    const a = await tenureOn([at(follower!)]);
    const b = await tenureOn([at(await ensemble.leader())]);
    const held = await a.acquire(name, { ttl: ttlMs, renew: false });
    const next = b.acquire(name, { ttl: ttlMs });
    // Renewed when it is due, and cut off before the member tells the leader on its next half tick.
    await sleep(ttlMs / 3);
    await held.renew();
    link.silence();
    onTestFinished(() => ensemble.heal());
    const token = (await next).token;
    expect(held.state).toBe("lost");
    expect(token).toBeGreaterThan(held.token);
    await (await next).release();
    await ensemble.heal();
    await until("the member follows again", async () => {
      return (await follower!.mode().catch(() => "none")) === "follower";
    });
  }, 60_000);

  it("grants nothing without a majority, and tells holders by their deadline", async () => {
    const name = freshName();
    const ttlMs = 4_000;
    const a = await tenureOn(ensemble.hosts);
    const b = await tenureOn(ensemble.hosts);
    const sentAt = performance.now();
    const held = await a.acquire(name, { ttl: ttlMs });
    const lost = once(held.signal, "abort");
    const downs = ensemble.members.slice(0, 2);
    let killedAt = sentAt;
    onTestFinished(async () => {
      await Promise.all(downs.map((member) => member.start()));
    });
    await Promise.all(downs.map((member) => member.kill()));
    killedAt = performance.now();
    const attempts = [1, 2, 3].map((i) =>
      b.tryAcquire(i === 1 ? name : freshName(), { ttl: 9_000 }),
    );
    const outcomes = await Promise.allSettled(attempts);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    await lost;
    expect(performance.now() - killedAt).toBeLessThan(ttlMs + 1_000);
    expect((held.signal.reason as LeaseLostError).reason).toBe("deadline");
    const refused = await connect(ensemble.url).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(UnavailableError);
    expect((refused as Error).message).toMatch(/cannot open the store: .*(serves nobody|reached)/);
  }, 60_000);
});
