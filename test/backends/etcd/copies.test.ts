import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from "vitest";
import type { Reply } from "../../../src/backends/etcd/client.js";
import { OutcomeUnknownError } from "../../../src/core/errors.js";
import { faultProxy, type FaultProxy } from "../../../src/testing/fault-proxy.js";
import { etcdProgram, startEtcd, type EtcdServer } from "../../servers/etcd.js";
import { describeOn } from "../../servers/find.js";
import { backendOn, call, clientOn, contenders, request, session, tenureOn } from "./rig.js";

const options = { during: "test", timeoutMs: 5_000 };

describeOn(etcdProgram, "requests to etcd that are lost, late, or carried out twice", () => {
  let server: EtcdServer;
  beforeAll(async () => void (server = await startEtcd()));
  afterAll(() => server.dispose());
  let name = "";
  let count = 0;
  beforeEach(() => void (name = `n${++count}`));

  /** What makes a copy of the first attempt that comes through, to be carried out later. */
  function copying(isLoose: boolean, isLost = false) {
    let copy: (() => Promise<Reply>) | undefined;
    return {
      carryOutLate: (): Promise<Reply> => copy!(),
      ask: async (
        path: string,
        _body: object,
        { during }: { during: string },
        onward: () => Promise<Reply>,
      ): Promise<Reply> => {
        const reply = await onward();
        if (path !== "kv/txn" || during !== "acquire a lease" || copy !== undefined) return reply;
        copy = onward;
        if (isLost) throw new OutcomeUnknownError("the answer was lost");
        return { ...reply, isLoose };
      },
    };
  }

  it.each([
    { isLoose: true, left: 0, title: "does nothing after the release" },
    // What the key that forbids it is good for.
    {
      isLoose: false,
      left: 1,
      title: "would stand for as long as the session, if it were not known of",
    },
  ])("a late copy of an acquire $title", async ({ isLoose, left }) => {
    const between = copying(isLoose);
    const backend = await backendOn(server.url, between);
    const answer = await backend.acquire(request(name, await session(backend)), call);
    if (!("grant" in answer)) throw new Error("a free name was refused");
    await between.carryOutLate();
    expect(await backend.release([answer.grant], call)).toEqual(["released"]);
    await between.carryOutLate();
    expect(await contenders(server, name)).toHaveLength(left);
  });

  it("a late copy of an enqueue does nothing after the waiter has left", async () => {
    const between = copying(true);
    const backend = await backendOn(server.url, between);
    if (backend.waiting.kind !== "queue") throw new Error("no queue");
    const own = await session(backend);
    const ticket = await backend.waiting.enqueue(request(name, own), call);
    await ticket.leave(call);
    await between.carryOutLate();
    expect(await contenders(server, name)).toEqual([]);
  });

  it("an acquire whose answer was lost wins when repeated, with the same token (case 20, lost-acquire-reply)", async () => {
    const backend = await backendOn(server.url, copying(true, true));
    const wish = request(name, await session(backend));
    await expect(backend.acquire(wish, call)).rejects.toThrow(OutcomeUnknownError);
    const [{ token } = { token: 0n }] = await contenders(server, name);
    expect(await backend.acquire(wish, call)).toMatchObject({ grant: { token } });
    // A session that has come to an end meanwhile is replaced, and the token stays.
    const next = await session(backend);
    expect(await backend.acquire({ ...wish, session: next }, call)).toMatchObject({
      grant: { token, session: next },
    });
    expect(await contenders(server, name)).toMatchObject([{ token, lease: next }]);
  });

  it("an attempt that was given up is gone for certain, also when it arrives afterwards (orphan-grant)", async () => {
    const between = copying(true, true);
    const backend = await backendOn(server.url, between);
    const wish = request(name, await session(backend));
    await expect(backend.acquire(wish, call)).rejects.toThrow(OutcomeUnknownError);
    const { holder } = wish;
    expect(await backend.release([{ name, holder }], call)).toEqual(["released"]);
    await between.carryOutLate();
    expect(await backend.release([{ name, holder }], call)).toEqual(["not-held"]);
    expect(await contenders(server, name)).toEqual([]);
  });

  /** Two ways to the server: the first falls silent when told to, and the request goes by both. */
  async function twoWays(): Promise<{ hosts: readonly string[]; first: FaultProxy }> {
    const first = await faultProxy({ port: server.port });
    onTestFinished(() => first.close());
    return { hosts: [`127.0.0.1:${first.port}`, `127.0.0.1:${server.port}`], first };
  }

  it("a release that was carried out twice is unknown, and ends no work as if its lease had been lost (late-release)", async () => {
    const { hosts, first } = await twoWays();
    const tenure = await tenureOn(hosts);
    const done = await tenure.hold(name, async () => {
      first.silence("reply");
      return "done";
    });
    expect(done).toBe("done");
    expect(await contenders(server, name)).toEqual([]);
    const lease = await tenure.acquire(name);
    expect(await lease.release()).toBe("released");
  });

  it.each([
    { isLoose: true, told: "unknown" },
    { isLoose: false, told: "not-held" },
  ] as const)(
    "a release whose session is gone is $told, with an earlier copy of it: $isLoose",
    async ({ isLoose, told }) => {
      const acquiring = copying(true);
      const own: { id?: string } = {};
      const backend = await backendOn(server.url, {
        ask: async (path, body, about, onward) => {
          if (about.during !== "release a lease") {
            return acquiring.ask(path, body, about, onward);
          }
          if (isLoose) await onward();
          await backend.sessions!.close(own.id!, call);
          const reply = await onward();
          expect(reply).toMatchObject({ refused: "no-lease", isLoose: false });
          return { ...reply, isLoose };
        },
      });
      own.id = await session(backend);
      const answer = await backend.acquire(request(name, own.id), call);
      if (!("grant" in answer)) throw new Error("a free name was refused");
      expect(await backend.release([answer.grant], call)).toEqual([told]);
    },
  );

  it("a break that was carried out twice is unknown", async () => {
    const { hosts, first } = await twoWays();
    const tenure = await tenureOn(hosts);
    const { token } = await (await tenureOn(server.url)).acquire(name, { renew: false });
    const seen = await tenure.inspect(name);
    expect(seen).toMatchObject({ token });
    const breaking = tenure.break(name, { token, reason: "test" });
    // The look before it comes back, and the answer to the break does not.
    await first.passed("reply");
    first.silence("reply");
    await expect(breaking).rejects.toThrow(OutcomeUnknownError);
    expect(await contenders(server, name)).toEqual([]);
  });

  it("the tenure gets the lease whose first answer was lost, and leaves nothing behind", async () => {
    const tenure = await tenureOn(await backendOn(server.url, copying(true, true)));
    const lease = await tenure.acquire(name);
    expect(await contenders(server, name)).toMatchObject([{ token: lease.token }]);
    await lease.release();
    expect(await contenders(server, name)).toEqual([]);
  });

  it("a renewal or release that comes late touches neither a free name nor the next holder", async () => {
    const backend = await backendOn(server.url);
    const own = await session(backend);
    const first = await backend.acquire(request(name, own), call);
    if (!("grant" in first)) throw new Error("a free name was refused");
    await backend.release([first.grant], call);
    expect(await backend.renew([first.grant], call)).toEqual([{ lost: "absent" }]);
    const next = await backend.acquire(request(name, own), call);
    if (!("grant" in next)) throw new Error("a free name was refused");
    expect(await backend.release([first.grant], call)).toEqual(["not-held"]);
    expect(await backend.renew([first.grant, next.grant], call)).toMatchObject([
      { lost: { holder: next.grant.holder, token: next.grant.token } },
      "renewed",
    ]);
  });

  it("carries a batch of as many grants as declared, and finds the one that is lost", async () => {
    const backend = await backendOn(server.url);
    const own = await session(backend);
    const { renewBatch } = backend.manifest;
    const grants = await Promise.all(
      Array.from({ length: renewBatch }, async (_, i) => {
        const answer = await backend.acquire(request(`${name}:${i}`, own), call);
        if (!("grant" in answer)) throw new Error("a free name was refused");
        return answer.grant;
      }),
    );
    await backend.release([grants[7]!], call);
    const outcomes = await backend.renew(grants, call);
    expect(outcomes.filter((outcome) => outcome === "renewed")).toHaveLength(renewBatch - 1);
    expect(outcomes[7]).toEqual({ lost: "absent" });
    const { body } = await clientOn(server.url).ask("lease/timetolive", { ID: own }, options);
    expect(body).toMatchObject({ ID: own });
  });

  it("sends many requests at once no oftener than once each, and what keeps leases before them", async () => {
    const tenure = await tenureOn(server.url);
    const leases = await Promise.all(
      Array.from({ length: 400 }, (_, i) => tenure.acquire(`${name}:${i}`, { ttl: "1m" })),
    );
    const sent = (): Promise<number> =>
      server.metric(
        'grpc_server_started_total{grpc_method="Txn",grpc_service="etcdserverpb.KV",grpc_type="unary"}',
      );
    const before = await sent();
    const released = Promise.all(leases.slice(1).map((lease) => lease.release()));
    let isDone = false;
    void released.then(() => (isDone = true));
    await leases[0]!.renew();
    expect(isDone).toBe(false);
    expect(new Set(await released)).toEqual(new Set(["released"]));
    expect((await sent()) - before).toBe(leases.length);
  });
});
