import { afterAll, beforeAll, expect, it } from "vitest";
import { LeaseLostError, NotAcquiredError, OutcomeUnknownError } from "../../../src/core/errors.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { consulProgram, startConsul, type ConsulServer } from "../../servers/consul.js";
import { describeOptional } from "../../servers/find.js";
import { bench, call, reasonOf, until } from "./bench.js";

describeOptional(consulProgram, "consul backend and its sessions", () => {
  let server: ConsulServer;
  beforeAll(async () => void (server = await startConsul()));
  afterAll(() => server.dispose());
  const { prefix, backend, tenure, session } = bench(() => server);
  const sessionOf = (name: string): Promise<string | undefined> =>
    server.sessionOf(`${prefix()}/lease/${name}`);

  it("holds a name back after a session died, says so, and not after a release", async () => {
    const lockDelay = "1500ms";
    const [a, b] = [await tenure({ lockDelay }), await tenure({ lockDelay })];
    await (await a.acquire("x")).release();
    await (await b.acquire("x", { wait: 0 })).release();

    const lease = await a.acquire("x", { renew: false });
    const endedMs = performance.now();
    await server.endSession((await sessionOf("x"))!);
    expect(await b.inspect("x")).toBeNull();
    const late = await b.acquire("x", { wait: 0 }).catch((error: unknown) => error);
    expect(late).toBeInstanceOf(NotAcquiredError);
    expect(late).toMatchObject({ held: { why: "lock-delay" } });
    expect((late as Error).message).toContain("lock delay");
    const next = await b.acquire("x", { wait: "10s" });
    const tookMs = performance.now() - endedMs;
    expect(tookMs).toBeGreaterThanOrEqual(1_450);
    // The waiter looks every second: it does not wait for the core's own look, after five.
    expect(tookMs).toBeLessThan(4_500);
    expect(next.token).toBeGreaterThan(lease.token);
  });

  it("grants one of twenty holders of one session, which the server would not", async () => {
    const one = await backend();
    const id = await session(one);
    const raw = `kv/${prefix()}/raw?acquire=${id}`;
    expect(await server.call("PUT", raw, "first")).toBe(true);
    expect(await server.call("PUT", raw, "second")).toBe(true);

    const request = { name: "x", ttlMs: 60_000, session: id };
    const answers = await Promise.all(
      Array.from({ length: 20 }, async (_, i) =>
        one.acquire({ ...request, holder: `h${i}` }, call()),
      ),
    );
    const grants = answers.flatMap((answer) => ("grant" in answer ? [answer.grant] : []));
    expect(grants).toHaveLength(1);
    expect(await one.inspect("x", call())).toMatchObject({
      holder: grants[0]!.holder,
      token: grants[0]!.token,
    });
  });

  it("raises tokens over deletions, where LockIndex starts again", async () => {
    const one = await backend();
    const id = await session(one);
    const lockIndexes: number[] = [];
    const tokens: bigint[] = [];
    for (const holder of ["a", "b"]) {
      const answer = await one.acquire({ name: "x", holder, ttlMs: 60_000, session: id }, call());
      if ("grant" in answer) tokens.push(answer.grant.token);
      const key = `kv/${prefix()}/lease/x`;
      lockIndexes.push((await server.call("GET", key))[0].LockIndex);
      await server.call("DELETE", key);
    }
    expect(lockIndexes).toEqual([1, 1]);
    expect(tokens[1]).toBeGreaterThan(tokens[0]!);
  });

  it("notices within one renewal interval that its record or its session is gone", async () => {
    const locks = await tenure();
    const kept = await locks.acquire("kept", { ttl: 3_000 });
    const deleted = await locks.acquire("deleted", { ttl: 3_000 });
    const ended = await locks.acquire("ended", { ttl: 2_900 });
    const [shared, other] = [await sessionOf("kept"), await sessionOf("ended")];
    const atMs = performance.now();
    await server.call("DELETE", `kv/${prefix()}/lease/deleted`);
    await server.endSession(other!);
    expect(await reasonOf(deleted.signal)).toMatchObject({ reason: "absent" });
    expect(await reasonOf(ended.signal)).toMatchObject({ reason: "session" });
    expect(performance.now() - atMs).toBeLessThan(2_000);
    // The session of the deleted record lives, and renews what is left under it.
    expect(await server.sessions()).toContain(shared);
    await kept.renew();
    kept.assertHeld();
  });

  it("grants a waiter nothing under a session that died while it waited (case 21)", async () => {
    const [a, b] = [await tenure(), await tenure()];
    const held = await a.acquire("x", { ttl: "60s" });
    const before = await server.sessions();
    const waiting = b.acquire("x", { ttl: 30_000 });
    let ofB: string | undefined;
    await until("the waiter's session", async () => {
      ofB = (await server.sessions()).find((id) => !before.includes(id));
      return ofB !== undefined;
    });
    await server.endSession(ofB!);
    await held.release();
    const lease = await waiting;
    expect(await sessionOf("x")).not.toBe(ofB);
    await lease.renew();
    lease.assertHeld();
  });

  it("repeats the grant whose answer was lost, under the same token (case 20)", async () => {
    await using proxy = await faultProxy({ port: server.port });
    const one = await backend({}, `consul://127.0.0.1:${proxy.port}`);
    const request = { name: "x", holder: "h", ttlMs: 60_000, session: await session(one) };
    proxy.silence("reply");
    const lost = one.acquire(request, call(300));
    await expect(lost).rejects.toThrow(OutcomeUnknownError);
    proxy.cut();
    await proxy.heal();
    const shown = await one.inspect("x", call());
    expect(shown).toMatchObject({ holder: "h" });
    const again = await one.acquire(request, call());
    expect(again).toMatchObject({ grant: { token: shown!.token, session: request.session } });
  });

  it("takes its own attempt over from a session that it has left", async () => {
    const one = await backend();
    const request = { name: "x", holder: "h", ttlMs: 60_000 };
    const first = await one.acquire({ ...request, session: await session(one) }, call());
    const id = await session(one);
    const second = await one.acquire({ ...request, session: id }, call());
    if (!("grant" in first) || !("grant" in second)) throw new Error("it waits behind itself");
    expect(second.grant).toMatchObject({ session: id });
    expect(second.grant.token).toBeGreaterThan(first.grant.token);
    expect(await one.renew([first.grant], call())).toMatchObject([{ lost: { holder: "h" } }]);
    expect(await one.renew([second.grant], call())).toEqual(["renewed"]);
  });

  it("takes a key that nobody holds: unlocked by hand, or written by a stranger", async () => {
    const one = await backend();
    const id = await session(one);
    await server.call("PUT", `kv/${prefix()}/lease/x`, "a stranger's");
    const request = { name: "x", holder: "h", ttlMs: 60_000, session: id };
    expect(await one.inspect("x", call())).toBeNull();
    const answer = await one.acquire(request, call());
    if (!("grant" in answer)) throw new Error("it is held");
    await server.call("PUT", `kv/${prefix()}/lease/x?release=${id}`, "x");
    expect(await one.renew([answer.grant], call())).toEqual([{ lost: "absent" }]);
    const again = await one.acquire({ ...request, holder: "h2" }, call());
    expect(again).toMatchObject({ grant: { holder: "h2" } });
  });

  it("leaves nothing of names that nobody holds: released, or their session over", async () => {
    const locks = await tenure();
    const names = Array.from({ length: 20 }, (_, i) => `n${i}`);
    const leases = await Promise.all(names.map((name) => locks.acquire(name, { renew: false })));
    await Promise.all(leases.slice(10).map((lease) => lease.release()));
    const keys = (): Promise<readonly string[]> => server.keys(`${prefix()}/lease/`);
    expect(await keys()).toHaveLength(10);
    await server.endSession((await sessionOf("n0"))!);
    expect(await keys()).toEqual([]);
  });

  it("tells the holder in time when the server freezes (case 1)", async () => {
    const locks = await tenure();
    const sentMs = performance.now();
    const lease = await locks.acquire("x", { ttl: 4_000, grace: 1_000 });
    await server.freeze();
    const reason = await reasonOf(lease.signal);
    const tookMs = performance.now() - sentMs;
    expect(reason).toBeInstanceOf(LeaseLostError);
    expect(reason).toMatchObject({ reason: "deadline" });
    expect(tookMs).toBeGreaterThan(2_500);
    expect(tookMs).toBeLessThanOrEqual(4_000);
    await until("the deadline", () => lease.state === "lost");
    await server.thaw();
  });
});
