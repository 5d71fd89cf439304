import {
  ConditionalCheckFailedException,
  DeleteItemCommand,
  GetItemCommand,
  UpdateItemCommand,
  type DynamoDBClient,
  type UpdateItemCommandInput,
} from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { keyOf } from "../../../src/backends/dynamodb/record.js";
import { dynamodb, type DynamodbBackend } from "../../../src/backends/dynamodb/open.js";
import { Tenure } from "../../../src/core/tenure.js";
import { platform } from "../../../src/platform/index.js";
import { readyTable } from "../../conformance/dynamodb-subject.js";
import { dynaliteProgram, startDynamodb, type DynamodbServer } from "../../servers/dynamodb.js";
import { describeOn } from "../../servers/find.js";
import { backendOn, call, Machine, refused, runtimeOf, take, wish } from "./rig.js";

const HOUR_MS = 3_600_000;

describeOn(dynaliteProgram, "records of dynamodb that nobody renews", () => {
  let server: DynamodbServer;
  let client: DynamoDBClient;
  let table: string;
  beforeAll(async () => {
    server = await startDynamodb(dynaliteProgram);
    client = server.client();
    table = await readyTable(server);
  });
  afterAll(async () => {
    client.destroy();
    await server.dispose();
  });
  const at = (): { client: DynamoDBClient; table: string } => ({ client, table });
  const item = async (name: string): Promise<Record<string, any>> => {
    const Key = keyOf(name) as { pk: { S: string } };
    const found = await client.send(new GetItemCommand({ TableName: table, Key }));
    return found.Item ?? {};
  };

  describe("for those who never wait", () => {
    it("are taken by the second of two processes of a boot, a TTL after the first looked", async () => {
      const machine = new Machine("boot-a");
      const dead = await take(await backendOn(new Machine("boot-dead"), at()), wish("cron"));
      await refused(await backendOn(machine, at()), wish("cron"));
      machine.pass(30_000);
      await refused(await backendOn(machine, at()), wish("cron"));
      machine.pass(500);
      const taken = await take(await backendOn(machine, at()), wish("cron"));
      expect(taken.token).toBe(dead.token + 1n);
      expect((await item("cron"))["seen"]).toEqual({ M: {} });
    });

    it("are not taken once renewed, however old the note is", async () => {
      const machine = new Machine("boot-b");
      const holder = await backendOn(new Machine("boot-holder"), at());
      const grant = await take(holder, wish("alive"));
      for (let minute = 0; minute < 3; minute++) {
        await refused(await backendOn(machine, at()), wish("alive"));
        expect(await holder.renew([grant], call)).toEqual(["renewed"]);
        machine.pass(60_000);
      }
    });

    it("are not taken by the notes of another boot", async () => {
      const [here, there] = [new Machine("boot-c"), new Machine("boot-d")];
      there.pass(1e9);
      await take(await backendOn(new Machine("boot-dead"), at()), wish("far"));
      await refused(await backendOn(here, at()), wish("far"));
      await refused(await backendOn(there, at()), wish("far"));
      expect(Object.keys((await item("far"))["seen"].M)).toEqual(["boot-c", "boot-d"]);
      here.pass(31_000);
      await take(await backendOn(here, at()), wish("far"));
    });

    it("need both clocks of the boot to have moved: copies of one machine share the first", async () => {
      await take(await backendOn(new Machine("boot-dead"), at()), wish("image"));
      const copies = [new Machine("boot-e"), new Machine("boot-e")] as const;
      copies[1].monotonicMs += HOUR_MS;
      await refused(await backendOn(copies[0], at()), wish("image"));
      await refused(await backendOn(copies[1], at()), wish("image"));
      // A wall clock that was set an hour ahead, and no time passed.
      copies[0].wallMs += HOUR_MS;
      await refused(await backendOn(copies[0], at()), wish("image"));
    });

    it("are noted anew where a clock was set back: its owner waits a TTL, and not an hour", async () => {
      const machine = new Machine("boot-n");
      await take(await backendOn(new Machine("boot-dead"), at()), wish("back"));
      await refused(await backendOn(machine, at()), wish("back"));
      machine.wallMs -= HOUR_MS;
      await refused(await backendOn(machine, at()), wish("back"));
      machine.pass(31_000);
      await take(await backendOn(machine, at()), wish("back"));
    });

    it("carry the notes of 32 boots at most, and one note for each process", async () => {
      await take(await backendOn(new Machine("boot-dead"), at()), wish("many"));
      for (let boot = 0; boot < 33; boot++) {
        const backend = await backendOn(new Machine(`boot-${boot}`), at());
        await refused(backend, wish("many"));
        const { version } = await refused(backend, wish("many"));
        expect(version).toMatch(/^1 h\d+$/);
      }
      expect(Object.keys((await item("many"))["seen"].M)).toEqual(["boot-32"]);
    });
  });

  describe("for those who list", () => {
    const listed = async (backend: DynamodbBackend, prefix: string): Promise<number> => {
      let seen = 0;
      for await (const _ of backend.list(prefix, call)) seen++;
      return seen;
    };

    it("are taken at the first try, a TTL after they were first listed", async () => {
      const machine = new Machine("boot-q");
      const dead = await take(await backendOn(new Machine("boot-dead"), at()), wish("list/dead"));
      const backend = await backendOn(machine, at());
      expect(await listed(backend, "list/")).toBe(1);
      machine.pass(30_000);
      // A TTL, and the bound on how much slower the holder's clock may run.
      await refused(backend, wish("list/dead"));
      machine.pass(400);
      const taken = await take(backend, wish("list/dead"));
      expect(taken.token).toBe(dead.token + 1n);
    });

    it("are not taken when the list showed them renewed", async () => {
      const machine = new Machine("boot-r");
      const holder = await backendOn(new Machine("boot-holder"), at());
      const grant = await take(holder, wish("lists/alive"));
      const backend = await backendOn(machine, at());
      for (let third = 0; third < 6; third++) {
        expect(await listed(backend, "lists/")).toBe(1);
        expect(await holder.renew([grant], call)).toEqual(["renewed"]);
        machine.pass(20_000);
      }
      expect(await listed(backend, "lists/")).toBe(1);
      await refused(backend, wish("lists/alive"));
      // Nor by one that listed long ago, and missed a renewal since.
      expect(await holder.renew([grant], call)).toEqual(["renewed"]);
      machine.pass(60_000);
      await refused(backend, wish("lists/alive"));
    });
  });

  it("are renewed and released by nobody who has the token alone", async () => {
    const backend = await backendOn(new Machine("boot-m"), at());
    const grant = await take(backend, wish("token"));
    const stranger = { ...grant, holder: "stranger" };
    expect(await backend.renew([stranger], call)).toMatchObject([{ lost: { why: "held" } }]);
    expect(await backend.release([stranger], call)).toEqual(["not-held"]);
    expect(await backend.renew([grant], call)).toEqual(["renewed"]);
  });

  describe("by wall clocks, where somebody asked for it", () => {
    const wallClock = { maxSkew: "5s" } as const;

    it("are taken without a look before, once the end is past by the skew", async () => {
      const [holder, taker] = [new Machine("boot-f"), new Machine("boot-g")];
      await take(await backendOn(holder, at(), { wallClock }), wish("wall"));
      const backend = await backendOn(taker, at(), { wallClock });
      taker.pass(35_000);
      await refused(backend, wish("wall"));
      taker.pass(1);
      await take(backend, wish("wall"));
    });

    it("are watched where the holder, or the taker, did not ask", async () => {
      const [asked, not] = [new Machine("boot-h"), new Machine("boot-i")];
      await take(await backendOn(not, at()), wish("unasked"));
      asked.pass(HOUR_MS);
      await refused(await backendOn(asked, at(), { wallClock }), wish("unasked"));
      await take(await backendOn(asked, at(), { wallClock }), wish("asked"));
      not.pass(3 * HOUR_MS);
      await refused(await backendOn(not, at()), wish("asked"));
    });

    it("are those of the present holder: a later one without the option leaves none", async () => {
      const machine = new Machine("boot-j");
      const first = await backendOn(machine, at(), { wallClock });
      const grant = await take(first, wish("left"));
      await first.release([grant], call);
      await take(await backendOn(machine, at()), wish("left"));
      machine.wallMs += HOUR_MS;
      await refused(await backendOn(machine, at(), { wallClock }), wish("left"));
    });

    it("are not taken where a copy of an earlier renewal comes late", async () => {
      const [holder, taker] = [new Machine("boot-m"), new Machine("boot-n")];
      const updates: UpdateItemCommandInput[] = [];
      const watched = server.client();
      watched.middlewareStack.add(
        (next) => async (args) => {
          if ("UpdateExpression" in args.input) updates.push(structuredClone(args.input));
          return await next(args);
        },
        { step: "initialize" },
      );
      onTestFinished(() => watched.destroy());
      const backend = await backendOn(holder, { client: watched, table }, { wallClock });
      const grant = await take(backend, wish("late"));
      updates.splice(0);
      for (let n = 0; n < 2; n++) {
        for (const machine of [holder, taker]) machine.pass(10_000);
        expect(await backend.renew([grant], call)).toEqual(["renewed"]);
      }
      const [first] = updates;
      await client.send(new UpdateItemCommand(first!)).catch((error: unknown) => {
        if (!(error instanceof ConditionalCheckFailedException)) throw error;
      });
      // The first renewal's end is past by the skew, the second's is not.
      taker.pass(25_001);
      await refused(await backendOn(taker, at(), { wallClock }), wish("late"));
      taker.pass(10_000);
      await take(await backendOn(taker, at(), { wallClock }), wish("late"));
    });

    it("are renewed by a holder whose clock was set back, and end when they would have", async () => {
      const [holder, taker] = [new Machine("boot-o"), new Machine("boot-p")];
      const backend = await backendOn(holder, at(), { wallClock });
      const grant = await take(backend, wish("turned"));
      const before = (await item("turned"))["version"];
      holder.wallMs -= HOUR_MS;
      expect(await backend.renew([grant], call)).toEqual(["renewed"]);
      expect((await item("turned"))["version"]).not.toEqual(before);
      taker.pass(35_000);
      await refused(await backendOn(taker, at(), { wallClock }), wish("turned"));
      expect(await backend.release([grant], call)).toEqual(["released"]);
      const other = await take(await backendOn(taker, at(), { wallClock }), wish("turned"));
      const lost = await backend.renew([grant], call);
      expect(lost).toMatchObject([{ lost: { holder: other.holder } }]);
    });

    it("name the option that is wrong", async () => {
      for (const wrong of [{ maxSkew: 0 }, { maxSkew: -1 }, {}, 5]) {
        const settings = { client, table, wallClock: wrong as never };
        expect(() => dynamodb(settings)).toThrow(/wallClock/);
      }
    });
  });

  describe("in front of a clock that is wrong by an hour", () => {
    it.concurrent.each([HOUR_MS, -HOUR_MS])("are held, and taken after one TTL (%d ms)", async (skewMs) => {
      const name = `skew${skewMs}`;
      const ttl = 5_000;
      const skewed = runtimeOf({
        get wallMs() {
          return platform().clock.wallMs() + skewMs;
        },
      });
      const dead = await take(await backendOn(new Machine("dead"), at()), wish(name, { ttlMs: ttl }));
      const tenure = await Tenure.open(dynamodb({ ...at(), runtime: skewed }), skewed, {});
      const startMs = performance.now();
      expect(await tenure.tryAcquire(name, { ttl })).toBeNull();
      const lease = await tenure.acquire(name, { ttl, wait: "60s" });
      const tookMs = performance.now() - startMs;
      // Not before the holder's own deadline would have passed, and not after a second watch.
      expect(tookMs).toBeGreaterThan(ttl * 0.99);
      expect(tookMs).toBeLessThan(2 * ttl);
      expect(lease.token).toBe(dead.token + 1n);
      await tenure.close();
    });

    it("begin above their former tokens when a hand has deleted them", async () => {
      const [ahead, behind] = [new Machine("boot-k"), new Machine("boot-l")];
      ahead.pass(10 * HOUR_MS);
      let before = 0n;
      for (const machine of [ahead, ahead, behind, behind, ahead, behind]) {
        const backend = await backendOn(machine, at());
        const first = await take(backend, wish("deleted"));
        await backend.release([first], call);
        const second = await take(backend, wish("deleted"));
        expect(first.token).toBeGreaterThan(before);
        expect(second.token).toBe(first.token + 1n);
        before = second.token;
        const Key = keyOf("deleted") as { pk: { S: string } };
        await client.send(new DeleteItemCommand({ TableName: table, Key }));
      }
    });
  });
});
