import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import type { Reply } from "../../../src/backends/etcd/client.js";
import type { EtcdBackend } from "../../../src/backends/etcd/index.js";
import type { AcquireRequest, Grant, Ticket } from "../../../src/core/backend.js";
import { OutcomeUnknownError } from "../../../src/core/errors.js";
import { platform } from "../../../src/platform/index.js";
import { etcdProgram, startEtcd, type EtcdServer } from "../../servers/etcd.js";
import { describeOn } from "../../servers/find.js";
import {
  backendOn,
  call,
  contenders,
  keys,
  request,
  session,
  type Between,
} from "./rig.js";

/** Runs something once, before the first step of this kind is sent. */
function before(step: string, run: () => Promise<unknown>): Between {
  let isDone = false;
  return {
    ask: async (path, _body, { during }, onward): Promise<Reply> => {
      const isNow = !isDone && `${path} ${during}` === step;
      if (isNow) isDone = true;
      if (isNow) await run();
      return onward();
    },
  };
}

describeOn(etcdProgram, "what comes between two steps of the etcd backend", () => {
  let server: EtcdServer;
  beforeAll(async () => void (server = await startEtcd()));
  afterAll(() => server.dispose());
  let name = "";
  let count = 0;
  beforeEach(() => void (name = `n${++count}`));

  async function grantOf(backend: EtcdBackend, wish: AcquireRequest): Promise<Grant> {
    const answer = await backend.acquire(wish, call);
    if (!("grant" in answer)) throw new Error("refused");
    return answer.grant;
  }

  async function enqueue(backend: EtcdBackend, wish: AcquireRequest): Promise<Ticket> {
    if (backend.waiting.kind !== "queue") throw new Error("no queue");
    return backend.waiting.enqueue(wish, call);
  }

  /** Looks at an offer that nobody confirms, and again when its time is over on the own clock. */
  async function twice(between: Between = {}) {
    const real = platform();
    let aheadMs = 0;
    const clock = { ...real.clock, monotonicMs: () => real.clock.monotonicMs() + aheadMs };
    const looking = await backendOn(server.url, between, { ...real, clock });
    const wish = request(name, await session(looking));
    expect(await looking.acquire(wish, call)).toMatchObject({ held: { why: "held" } });
    aheadMs = 1_500;
    return looking.acquire(wish, call);
  }

  it("an offer that nobody confirms is passed over by who tries for the name", async () => {
    const other = await backendOn(server.url);
    const { holder } = await enqueue(other, request(name, await session(other)));
    expect(await contenders(server, name)).toMatchObject([{ holder }]);
    const answer = await twice();
    if (!("grant" in answer)) throw new Error("still in the way");
    expect(await contenders(server, name)).toMatchObject([{ holder: answer.grant.holder }]);
  });

  it("an offer that is confirmed while it is being passed over is a lease, and stays", async () => {
    const other = await backendOn(server.url);
    const ticket = await enqueue(other, request(name, await session(other)));
    const offer = await ticket.turn(call.signal);
    if (offer === "gone") throw new Error("no offer");
    const confirm = async (): Promise<void> => {
      expect(await other.renew([offer], call)).toEqual(["renewed"]);
    };
    const answer = await twice(before("kv/txn pass over a waiter", confirm));
    expect(answer).toMatchObject({ held: { holder: offer.holder, token: offer.token } });
    expect(await other.renew([offer], call)).toEqual(["renewed"]);
  });

  it("an offer is not passed over by the process that has it, however long it takes to confirm", async () => {
    const real = platform();
    let aheadMs = 0;
    const clock = { ...real.clock, monotonicMs: () => real.clock.monotonicMs() + aheadMs };
    const backend = await backendOn(server.url, {}, { ...real, clock });
    if (backend.waiting.kind !== "queue") throw new Error("no queue");
    const ticket = await enqueue(backend, request(name, await session(backend)));
    for (let time = 0; time < 3; time++) {
      const [offer] = await backend.waiting.touch([ticket], call);
      expect(offer).toMatchObject({ holder: ticket.holder });
      aheadMs += 1_500;
    }
    expect(await contenders(server, name)).toMatchObject([{ holder: ticket.holder }]);
  });

  it("a renewal does not show a record that rests on another session", async () => {
    const backend = await backendOn(server.url);
    const wish = request(name, await session(backend));
    const grant = await grantOf(backend, wish);
    const moved = await grantOf(backend, { ...wish, session: await session(backend) });
    expect(moved.token).toBe(grant.token);
    expect(await backend.renew([grant, moved], call)).toMatchObject([
      { lost: { holder: wish.holder } },
      "renewed",
    ]);
  });

  it("a place whose answer was lost is kept, under the session it is asked for next", async () => {
    const [first, next] = await Promise.all([backendOn(server.url), backendOn(server.url)]);
    const wish = request(name, await session(first));
    await enqueue(first, wish);
    const [{ token } = { token: 0n }] = await contenders(server, name);
    const own = await session(next);
    const ticket = await enqueue(next, { ...wish, session: own });
    expect(await contenders(server, name)).toMatchObject([{ token, lease: own }]);
    expect(await ticket.turn(call.signal)).toMatchObject({ token, session: own });
  });

  it("a place that was taken anew by a late copy is gone for who had it before", async () => {
    const backend = await backendOn(server.url);
    if (backend.waiting.kind !== "queue") throw new Error("no queue");
    const under = await session(backend);
    await grantOf(backend, request(name, under));
    const middle = await enqueue(backend, request(name, under));
    const wish = request(name, under);
    const ticket = await enqueue(backend, wish);
    expect(await backend.waiting.touch([ticket], call)).toEqual(["waiting"]);
    await server.call("kv/deleterange", { key: keys.lease(name, wish.holder) });
    const again = await enqueue(backend, wish);
    expect(await backend.waiting.touch([ticket, again], call)).toEqual(["gone", "waiting"]);
    // Whose end makes it look where it stands, as it was not the first one before it.
    await middle.leave(call);
    expect(await ticket.turn(call.signal)).toBe("gone");
  });

  it("an earlier copy of an attempt does nothing after the release, though a later try was answered", async () => {
    let copy: (() => Promise<Reply>) | undefined;
    const backend = await backendOn(server.url, {
      ask: async (_path, _body, { during }, onward) => {
        if (during !== "acquire a lease" || copy !== undefined) return onward();
        // Its member holds it back.
        copy = onward;
        throw new OutcomeUnknownError("the answer was lost");
      },
    });
    const wish = request(name, await session(backend));
    await expect(backend.acquire(wish, call)).rejects.toThrow(OutcomeUnknownError);
    const grant = await grantOf(backend, wish);
    expect(await backend.release([grant], call)).toEqual(["released"]);
    await copy!();
    expect(await contenders(server, name)).toEqual([]);
  });

  it("a lease whose session ends while it is looked at is held by nobody", async () => {
    const holding = await backendOn(server.url);
    const under = await session(holding);
    await grantOf(holding, request(name, under));
    const end = (): Promise<void> => holding.sessions!.close(under, call);
    const looking = await backendOn(server.url, before("lease/timetolive look at a lease", end));
    expect(await looking.inspect(name, call)).toBeNull();
  });
});
