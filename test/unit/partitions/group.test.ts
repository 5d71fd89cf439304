import { describe, expect, it } from "vitest";
import { LeaseLostError } from "../../../src/core/errors.js";
import { PartitionCountError } from "../../../src/partitions/errors.js";
import { partitions, partitionsView } from "../../../src/partitions/group.js";
import { cut, heal, refuse, TTL_MS, World, type Member } from "./members.js";

/** TTL, a third of it until somebody looks, and the short rests and the taking. */
const UNOWNED_MS = TTL_MS + TTL_MS / 3 + 300;

async function world(members: number): Promise<World> {
  const made = new World();
  for (let i = 0; i < members; i++) await made.join();
  return made;
}

const moved = ({ changes }: Member, type: string): number =>
  changes.filter((change) => change.type === type).length;

describe("a group", () => {
  it("spreads its partitions evenly over members that start together, and moves none twice", async () => {
    const made = new World();
    await made.sim.until(Promise.all([made.start(), made.start(), made.start()]));
    await made.settled(made.members);
    const [a, b, c] = made.members;
    const revoked = [a!, b!, c!].map((member) => moved(member, "revoked"));
    expect(revoked).toEqual([0, 0, 0]);
    const { members, partitions: held, unowned, count } = await made.view();
    expect(count).toBe(64);
    expect(unowned).toEqual([]);
    expect(held).toHaveLength(64);
    expect(members.map(({ partitions: own }) => own.length).sort()).toEqual([21, 21, 22]);
    for (const { group } of made.members) {
      const seen = members.find(({ id }) => id === group.member)!;
      expect(seen.partitions).toEqual(group.owned.map(({ partition }) => partition));
      expect(seen.info).toMatchObject({ host: "simulated" });
    }
  });

  it("hands over what a newcomer is to have once it was given up, with higher tokens", async () => {
    const made = await world(2);
    await made.settled(made.members);
    const { partitions: held } = await made.view();
    const before = new Map(held.map(({ partition, token }) => [partition, token!]));
    const newcomer = await made.join();
    const [a, b] = made.members;
    await made.until("revoked", () => moved(a!, "revoked") + moved(b!, "revoked") === 21);
    const revoked = a!.changes.find(({ type }) => type === "revoked")!.partition;
    expect(revoked.state).toBe("revoked");
    expect(revoked.revoked.reason).toMatchObject({ code: "TENURE_PARTITION_REVOKED" });
    // It is held still, to finish in peace.
    expect(revoked.signal.aborted).toBe(false);
    revoked.assertOwned();
    expect(a!.group.owned).not.toContain(revoked);
    await revoked.release();
    await made.settled(made.members);
    expect(moved(newcomer, "assigned")).toBe(21);
    expect(moved(a!, "lost") + moved(b!, "lost")).toBe(0);
    for (const { partition, token } of newcomer.group.owned) {
      expect(token > before.get(partition)!).toBe(true);
    }
    // Nobody gave the other twenty up: they were taken away after the drain, and told so.
    expect(moved(a!, "overdue") + moved(b!, "overdue")).toBe(20);
  });

  it("takes over from the dead within the documented time, and moves nothing else", async () => {
    const made = await world(4);
    await made.settled(made.members);
    await made.sim.advance(5_000);
    const [dead, ...living] = made.members;
    for (const { changes } of living) changes.length = 0;
    cut(dead!);
    const tookMs = await made.settled(living);
    expect(tookMs).toBeLessThan(UNOWNED_MS);
    expect(living.map((member) => moved(member, "revoked"))).toEqual([0, 0, 0]);
    expect(living.reduce((sum, member) => sum + moved(member, "assigned"), 0)).toBe(16);
    expect(moved(dead!, "lost")).toBe(16);
    expect(dead!.group.owned).toEqual([]);
    // It comes back as what it was, and gets its share.
    heal(dead!);
    await made.settled(made.members);
    expect(dead!.group.signal.aborted).toBe(false);
  });

  it("takes over at once what a member gave up on leaving", async () => {
    const made = await world(3);
    await made.settled(made.members);
    await made.sim.advance(2_000);
    const [leaving, ...rest] = made.members;
    const closing = leaving!.group.close();
    const tookMs = await made.settled(rest);
    await made.sim.until(closing);
    expect(tookMs).toBeLessThan(TTL_MS / 3 + 300);
    expect(leaving!.group.signal.reason).toMatchObject({ message: expect.stringContaining("closed") });
    await leaving!.tenure.close();
    expect((await made.view()).members).toHaveLength(2);
  });

  it("asks the store for the same in a settled group, whatever the number of partitions", async () => {
    const requests: number[] = [];
    for (const count of [10, 400]) {
      const made = new World();
      for (let i = 0; i < 2; i++) await made.join({ count });
      await made.settled(made.members, count);
      await made.sim.advance(3_000);
      const askedBefore = made.members.map(({ way }) => way.requests);
      await made.sim.advance(15_000);
      const asked = made.members.map(({ way }, i) => way.requests - askedBefore[i]!);
      requests.push(asked.reduce((sum, one) => sum + one));
    }
    // Of two members in 15 s: looks and renewals, each about three times per TTL of a second.
    expect(requests[0]).toBeGreaterThan(100);
    expect(requests[1]! / requests[0]!).toBeLessThan(1.2);
    expect(requests[1]).toBeLessThan(260);
  });

  it("joins all the same when it was frozen while it joined", async () => {
    const made = new World();
    let lists = 0;
    made.onList = () => {
      if (++lists === 2) made.sim.block(2 * TTL_MS);
    };
    const member = await made.join();
    await made.settled([member]);
    const lost = made.sim.events.filter(({ type }) => type === "lost");
    expect(lost.map(({ name }) => name)).toContain("orders/join");
    expect((await made.view()).members).toHaveLength(1);
  });

  it("gives up joining when its signal aborts, also with the loss of another lease", async () => {
    const made = new World();
    const other = new AbortController();
    const reason = new LeaseLostError("another lease is lost", { reason: "deadline" });
    made.onList = () => other.abort(reason);
    await expect(made.join({ signal: other.signal })).rejects.toBe(reason);
    made.onList = () => undefined;
    expect((await made.view()).members).toHaveLength(0);
  });

  it("does not move anything while a member is slow, or the store silent for less than the TTL", async () => {
    const made = await world(3);
    await made.settled(made.members);
    for (const { changes } of made.members) changes.length = 0;
    for (let i = 0; i < 10; i++) {
      for (const member of made.members) refuse(member);
      await made.sim.advance(400);
      for (const member of made.members) heal(member);
      await made.sim.advance(800);
    }
    expect(made.members.flatMap(({ changes }) => changes)).toEqual([]);
  });
});

describe("another number of partitions", () => {
  it("is refused while the group runs, and nothing is lost", async () => {
    const made = await world(2);
    await made.settled(made.members);
    const error = await made.join({ count: 32 }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(PartitionCountError);
    expect(error).toMatchObject({ group: "orders", count: 32, running: 64, family: "refused" });
    expect((error as Error).message).toContain('"orders" runs with 64 partitions, not 32');
    await made.sim.advance(3_000);
    expect(made.shares()).toEqual([32, 32]);
  });

  it("is refused as long as one partition is held, and taken when all have left", async () => {
    const made = await world(1);
    await made.settled(made.members);
    const [only] = made.members;
    let finish = (): void => undefined;
    const running = only!.group.run(() => new Promise<void>((done) => (finish = done)));
    const closing = only!.group.close();
    await made.sim.settle();
    expect((await made.view()).members).toEqual([]);
    await expect(made.join({ count: 32 })).rejects.toThrow(PartitionCountError);
    finish();
    await made.sim.until(Promise.all([closing, running]));
    const later = await made.join({ count: 32 });
    await made.settled([later], 32);
  });

  it("of two that join together one is refused", async () => {
    const made = new World();
    const joins = await made.sim.until(
      Promise.allSettled([made.start(), made.start({ count: 8 })]),
    );
    expect(joins.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  });
});

describe("wrong arguments", () => {
  it.each([
    [{ count: 0 }, "count must be a whole number from 1 to 100000, got 0"],
    [{ count: 1.5 }, "count"],
    [{ count: "8" }, "count"],
    [{ count: 8, ttl: -1 }, "ttl"],
    [{ count: 8, drain: Number.NaN }, "drain"],
    [{ count: 8, onChange: 1 }, "onChange must be a function, got 1"],
    [{ count: 8, cuont: 1 }, "cuont"],
    [{}, "count must be a whole number from 1 to 100000, got undefined"],
    [{ count: 100_001 }, "count must be a whole number from 1 to 100000, got 100001"],
    [{ count: 8, grace: "20s" }, "grace must be"],
    [{ count: 8, renewEvery: 0 }, "renewEvery"],
    [{ count: 8, info: { a: null } }, "info.a must be"],
    [{ count: 8, info: 5 }, "info must be an object"],
    [{ count: 8, signal: {} }, "signal must be an AbortSignal"],
    [{ count: 8, onError: "log" }, "onError must be a function"],
  ])("%j are told by name", async (options, message) => {
    const { tenure } = await new World().process();
    await expect(partitions(tenure, "orders", options as never)).rejects.toThrow(message);
  });

  it("a count that is a bigint is told, too", async () => {
    const { tenure } = await new World().process();
    await expect(partitions(tenure, "orders", { count: 8n } as never)).rejects.toThrow(
      "count must be a whole number from 1 to 100000, got 8n",
    );
  });

  it.each([undefined, null, 8, "8", [8]])("%j instead of options is told", async (options) => {
    const { tenure } = await new World().process();
    await expect(partitions(tenure, "orders", options as never)).rejects.toThrow(
      "options must be an object with at least count, the number of partitions, got",
    );
  });

  it("what is no name of a group, of who joins and of who looks", async () => {
    const { tenure } = await new World().process();
    for (const name of [undefined, 1, "", "a\0b"]) {
      await expect(partitions(tenure, name as never, { count: 8 })).rejects.toThrow("name must be");
      await expect(partitionsView(tenure, name as never)).rejects.toThrow("name must be");
    }
    await expect(partitionsView(undefined as never, "orders")).rejects.toThrow("tenure must be");
  });

  it("a name that leaves no room for its leases, and what is no tenure", async () => {
    const { tenure } = await new World().process();
    await expect(partitions(tenure, "x".repeat(401), { count: 8 })).rejects.toThrow("400 bytes");
    await expect(partitions({} as never, "orders", { count: 8 })).rejects.toThrow("tenure");
  });
});
