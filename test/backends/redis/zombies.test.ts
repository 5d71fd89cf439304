/**
 * Commands that come twice and late: whatever a client library, a proxy or the network sends again.
 *
 * Every command of an old holder is kept as it was sent, and sent once more to a store in which its
 * lease is over. Leases and offers last for an hour here, so that no pause of any process changes
 * what the store has while this looks at it.
 */
import { Redis } from "ioredis";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { AcquireRequest, Backend, Grant, Ticket } from "../../../src/core/backend.js";
import type { Connection } from "../../../src/backends/redis/client.js";
import { redisBackend } from "../../../src/backends/redis/index.js";
import { Keys } from "../../../src/backends/redis/keys.js";
import { explainRedis } from "../../../src/drivers/redis/errors.js";
import { openBesideRedis } from "../../../src/drivers/redis/open.js";
import { platform } from "../../../src/platform/index.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis, type RedisServer } from "../../servers/redis.js";
import { call, client, releaseToStandingOffer } from "./bench.js";

const HOUR_MS = 3_600_000;
const NAME = "zombie";
const keys = new Keys("tenure:");
const [LEASE, LINE, WAITERS] = keys.ofQueue(NAME);
const orders = [
  ["acquire", "renew", "release"],
  ["acquire", "release", "renew"],
  ["renew", "acquire", "release"],
  ["renew", "release", "acquire"],
  ["release", "acquire", "renew"],
  ["release", "renew", "acquire"],
] as const;

type Command = readonly string[];
/** What one holder has sent about the name, by what it was for. */
type Life = Record<"acquire" | "renew" | "release", readonly Command[]>;

describeOn(redisProgram, "what comes to redis twice and late (zombie-commands, scenario 13)", () => {
  let server: RedisServer;
  let raw: Redis;
  let old: Backend;
  let other: Backend;
  const sent: Command[] = [];
  const open: Backend[] = [];

  beforeEach(async () => {
    sent.length = 0;
    server = await startRedis();
    raw = new Redis(server.port);
    old = await opened((connection) => recorded(connection, sent));
    other = await opened((connection) => connection);
  });
  afterEach(async () => {
    for (const backend of open.splice(0)) await backend.close();
    raw.disconnect();
    await server.dispose();
  });

  async function opened(wrap: (connection: Connection) => Connection): Promise<Backend> {
    const backend = redisBackend({
      connect: async () => wrap(openBesideRedis(client(server.port))),
      faults: { explain: explainRedis },
      runtime: platform(),
    });
    open.push(backend);
    await backend.open!(call);
    return backend;
  }

  /** The commands about the name that a step has sent: kept before they leave. */
  async function sentBy(step: () => Promise<unknown>): Promise<readonly Command[]> {
    const from = sent.length;
    await step();
    const about = sent.slice(from).filter((command) => command.includes(LEASE));
    expect(about.length).toBeGreaterThan(0);
    return about;
  }

  /** A life of the old holder from its grant to its release. */
  async function live(holder: string, others: readonly string[] = []): Promise<Life> {
    let grants: Grant[] = [];
    const acquire = await sentBy(async () => {
      const beside = others.map((name) => ({ ...requestOf(`${holder} of ${name}`), name }));
      const all = [...beside, requestOf(holder)];
      grants = await Promise.all(all.map((request) => taken(old, request)));
    });
    const renew = await sentBy(async () => {
      expect(await old.renew(grants, call)).toEqual(grants.map(() => "renewed"));
    });
    const release = await sentBy(async () => {
      expect(await old.release(grants, call)).toEqual(grants.map(() => "released"));
    });
    return { acquire, renew, release };
  }

  /** Lives that went each way that the backend has. */
  const lives: Record<string, () => Promise<Life>> = {
    "alone": async () => {
      const life = await live("old");
      expect(life.release).toEqual([["HDEL", LEASE, expect.stringMatching(/^h\d+:old$/) as string]]);
      return life;
    },
    "with others in one script": async () => {
      // The first goes alone, and the rest together.
      const life = await live("old", ["first", "second"]);
      for (const [command] of [life.acquire, life.release]) {
        expect(command).toContain(keys.lease("second"));
      }
      return life;
    },
    "after an offer that lapsed, through the line": async () => {
      // Of a waiter that is gone: whoever comes next has to look at the line.
      await raw.hset(LEASE, { t: "1", "w1:gone": "1 1000 o " });
      const life = await live("old");
      expect(life.acquire).toHaveLength(2);
      expect(life.release.map(([command]) => command)).toEqual(["EVAL"]);
      return life;
    },
    "given up without its token": async () => {
      const life = await live("old");
      const release = await sentBy(async () => old.release([{ name: NAME, holder: "old" }], call));
      return { ...life, release };
    },
  };

  /** All that the store has of the name, without when processes were last heard of. */
  async function stored(): Promise<unknown> {
    const waiters = Object.entries(await raw.hgetall(WAITERS));
    return {
      lease: await raw.hgetall(LEASE),
      line: await raw.call("ZRANGE", LINE, "0", "-1", "WITHSCORES"),
      waiters: waiters.filter(([field]) => !field.startsWith("@")),
    };
  }

  async function again(commands: readonly Command[]): Promise<void> {
    for (const [command, ...args] of commands) await raw.call(command!, ...args);
  }

  /** Sends all of them in each order; none may change anything. */
  async function expectNoChange(life: Life): Promise<void> {
    const before = await stored();
    for (const order of orders) {
      for (const step of order) {
        await again(life[step]);
        expect(await stored(), `${step} of ${order.join(", ")}`).toEqual(before);
      }
    }
  }

  it.each(Object.keys(lives))("changes nothing while another holds the lease (%s)", async (which) => {
    const life = await lives[which]!();
    const grant = await taken(other, requestOf("other"));
    await expectNoChange(life);
    expect(await other.renew([grant], call)).toEqual(["renewed"]);
    expect(await other.release([grant], call)).toEqual(["released"]);
  });

  it.each(Object.keys(lives))("changes nothing while another waits for it (%s)", async (which) => {
    const life = await lives[which]!();
    const grant = await taken(other, requestOf("other"));
    const ticket = await queued(other, "waiter");
    await expectNoChange(life);
    expect(await other.release([grant], call)).toEqual(["released"]);
    expect(await ticket.turn(call.signal)).toMatchObject({ holder: "waiter" });
  });

  it.each(Object.keys(lives))("changes nothing while it is offered to another (%s)", async (which) => {
    const life = await lives[which]!();
    const grant = await taken(other, requestOf("other"));
    const ticket = await queued(other, "waiter");
    await releaseToStandingOffer(server.port, grant);
    const offer = await ticket.turn(call.signal);
    if (offer === "gone") throw new Error("the waiter has no offer");
    await expectNoChange(life);
    expect(await other.renew([offer], call)).toEqual(["renewed"]);
    expect(await other.release([offer], call)).toEqual(["released"]);
  });

  it.each(Object.keys(lives))("may be granted while it is free, and is nobody's for its TTL at most (%s)", async (which) => {
    const life = await lives[which]!();
    const ofOld = /^h(\d+):old$/;
    const holder = async (): Promise<string | undefined> =>
      (await raw.hkeys(LEASE)).find((field) => field !== "t");
    let last = BigInt((await raw.hget(LEASE, "t"))!);
    for (const order of orders) {
      expect(await holder()).toBeUndefined();
      for (const step of order) {
        const [before, was] = [await stored(), await holder()];
        await again(life[step]);
        if (step === "acquire") {
          // A grant of its own: what was sent under the old token is none of its.
          const token = BigInt(ofOld.exec((await holder()) ?? "")?.[1] ?? 0);
          expect(token).toBeGreaterThan(last);
          last = token;
          const [, ttlMs] = (await raw.hget(LEASE, `h${token}:old`))!.split(" ");
          expect(Number(ttlMs)).toBe(HOUR_MS);
        } else if (which.startsWith("given up") && step === "release") {
          // It asks for whatever this attempt was granted.
          expect(await holder()).toBeUndefined();
        } else {
          expect(await stored(), `${step} of ${order.join(", ")}`).toEqual(before);
        }
        if (was === undefined) continue;
        // While it stands, nobody else has the lease.
        const still = await holder();
        if (still !== undefined) expect(still).toMatch(ofOld);
      }
      const phantom = await holder();
      if (phantom === undefined) continue;
      expect(await other.acquire(requestOf("other"), call)).toMatchObject({
        held: { holder: "old" },
      });
      await raw.hset(LEASE, phantom, `1 ${HOUR_MS} l `);
      const grant = await taken(other, requestOf("other"));
      expect(grant.token).toBeGreaterThan(last);
      last = grant.token;
      expect(await other.release([grant], call)).toEqual(["released"]);
    }
  });
});

/** A connection that keeps what it sends, before it is sent; scripts as text. */
function recorded(connection: Connection, sent: Command[]): Connection {
  const { commands } = connection;
  return {
    ...connection,
    commands: {
      ...commands,
      send: (args, key) => {
        sent.push(args);
        return commands.send(args, key);
      },
      evaluate: (script, ofScript, args) => {
        sent.push(["EVAL", script, String(ofScript.length), ...ofScript, ...args]);
        return commands.evaluate(script, ofScript, args);
      },
    },
  };
}

const requestOf = (holder: string): AcquireRequest => ({ name: NAME, holder, ttlMs: HOUR_MS });

async function taken(backend: Backend, request: AcquireRequest): Promise<Grant> {
  const answer = await backend.acquire(request, call);
  if ("grant" in answer) return answer.grant;
  throw new Error(`held by ${answer.held.holder}`);
}

async function queued(backend: Backend, holder: string): Promise<Ticket> {
  if (backend.waiting.kind !== "queue") throw new Error("no queue");
  return backend.waiting.enqueue(requestOf(holder), call);
}
