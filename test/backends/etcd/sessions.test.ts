import { afterAll, beforeAll, expect, it } from "vitest";
import { etcdProgram, startEtcd, type EtcdServer } from "../../servers/etcd.js";
import { describeOn } from "../../servers/find.js";
import {
  backendOn,
  call,
  contenders,
  eventually,
  keys,
  request,
  session,
  tenureOn,
} from "./rig.js";

const base64 = (text: string): string => Buffer.from(text).toString("base64");

describeOn(etcdProgram, "sessions and records of the etcd backend", () => {
  let server: EtcdServer;
  beforeAll(async () => void (server = await startEtcd()));
  afterAll(() => server.dispose());

  /** What the lock call of the 3.4 line does; later ones look at the session. */
  async function grantOfTheServer(): Promise<void> {
    if (!(await server.call("maintenance/status", {})).version.startsWith("3.4.")) return;
    const grant = async (): Promise<string> => (await server.call("lease/grant", { TTL: 60 })).ID;
    const [first, second] = [await grant(), await grant()];
    const name = base64("own");
    const held = await server.call("lock/lock", { name, lease: first });
    const waiting = server.call("lock/lock", { name, lease: second });
    const queued = async (): Promise<boolean> =>
      (await server.call("kv/range", { key: base64("own/"), range_end: base64("own0") })).count ===
      "2";
    await eventually("the second in the queue", queued);
    await server.call("lease/revoke", { ID: second });
    await server.call("lock/unlock", { key: held.key });
    const { key } = await waiting;
    expect((await server.call("kv/range", { key })).count, "granted, with no key").toBeUndefined();
  }

  it("never grants on a session that died in the queue, as the server's own lock does (case 21, dead-lease-grant)", async () => {
    await grantOfTheServer();

    // Ours, as the core calls it.
    const backend = await backendOn(server.url);
    const [a, b] = [await session(backend), await session(backend)];
    const lease = await backend.acquire(request("x", a), call);
    if (!("grant" in lease)) throw new Error("a free name was refused");
    if (backend.waiting.kind !== "queue") throw new Error("no queue");
    const ticket = await backend.waiting.enqueue(request("x", b), call);
    const turn = ticket.turn(new AbortController().signal);
    await server.call("lease/revoke", { ID: b });
    expect(await backend.waiting.touch([ticket], call)).toEqual(["gone"]);
    await backend.release([lease.grant], call);
    const offer = await turn;
    // The end of the one before it is all that it has seen; confirming looks at its own record.
    if (offer !== "gone") expect(await backend.renew([offer], call)).toEqual([{ lost: "absent" }]);
    expect(await contenders(server, "x")).toEqual([]);
  });

  it("queues anew when the session of a waiter dies, and is granted on a living one", async () => {
    const [a, b] = [await tenureOn(server.url), await tenureOn(server.url)];
    const held = await a.acquire("y", { ttl: "9s" });
    const waiting = b.acquire("y", { ttl: "3s" });
    await eventually("a waiter", async () => (await contenders(server, "y")).length === 2);
    const [, waiter] = await contenders(server, "y");
    await server.call("lease/revoke", { ID: waiter!.lease });
    await eventually(
      "a new place",
      async () => (await contenders(server, "y")).length === 2,
      3_000,
    );
    await held.release();
    const lease = await waiting;
    const [own, ...others] = await contenders(server, "y");
    expect(others).toEqual([]);
    expect(own).toMatchObject({ token: lease.token, holder: lease.holder });
    expect(own!.lease).not.toBe(waiter!.lease);
    const { TTL } = await server.call("lease/timetolive", { ID: own!.lease });
    expect(Number(TTL)).toBeGreaterThan(0);
  });

  it("lets one of 20 tries at once on one client win, and one hold after the other (case 29)", async () => {
    const tenure = await tenureOn(server.url);
    const tries = await Promise.all(Array.from({ length: 20 }, () => tenure.tryAcquire("z")));
    const won = tries.filter((lease) => lease !== null);
    expect(won).toHaveLength(1);
    await won[0]!.release();
    let inside = 0;
    const tokens: bigint[] = [];
    await Promise.all(
      Array.from({ length: 10 }, () =>
        tenure.hold("z", async ({ token }) => {
          tokens.push(token);
          expect(++inside).toBe(1);
          await Promise.resolve();
          inside -= 1;
        }),
      ),
    );
    expect(tokens).toEqual(tokens.toSorted((x, y) => (x < y ? -1 : 1)));
  });

  it("tells within one renewal interval of a record that was deleted, its session being alive (case 5)", async () => {
    const tenure = await tenureOn(server.url);
    const [lease, other] = [
      await tenure.acquire("deleted", { ttl: "3s" }),
      await tenure.acquire("kept", { ttl: "3s" }),
    ];
    const [record] = await contenders(server, "deleted");
    await server.call("kv/deleterange", { key: keys.lease("deleted", lease.holder) });
    const tookMs = await eventually("its loss", () => lease.signal.aborted);
    expect(tookMs).toBeLessThan(1_000 + 500);
    expect(lease.signal.reason).toMatchObject({ reason: "absent" });
    expect(other.state).toBe("held");
    const { TTL } = await server.call("lease/timetolive", { ID: record!.lease });
    expect(Number(TTL)).toBeGreaterThan(0);
  });

  it("loses all leases of a session that was revoked, and goes on with a new one", async () => {
    const tenure = await tenureOn(server.url);
    const lease = await tenure.acquire("revoked", { ttl: "3s" });
    const [record] = await contenders(server, "revoked");
    await server.call("lease/revoke", { ID: record!.lease });
    const tookMs = await eventually("its loss", () => lease.signal.aborted);
    expect(tookMs).toBeLessThan(1_000 + 500);
    expect(lease.signal.reason).toMatchObject({ reason: "session" });
    const next = await tenure.acquire("revoked", { ttl: "3s" });
    expect(next.token).toBeGreaterThan(lease.token);
  });

  it("keeps no key of a name once nobody holds it or waits for it (case 33)", async () => {
    const tenure = await tenureOn(server.url);
    const all = async (): Promise<number> =>
      Number(
        (await server.call("kv/range", { ...keys.names("many"), count_only: true })).count ?? 0,
      );
    for (let i = 0; i < 20; i++) await tenure.hold(`many ${i}`, async () => undefined);
    expect(await all()).toBe(0);
  });
});
