/** A consumer that was frozen past its session, on a real broker, with a fenced table. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { createInterface } from "node:readline";
import { Consumer, Producer } from "@platformatic/kafka";
import { expect, it } from "vitest";
import { describeOptional, describeOn } from "../servers/find.js";
import { kafkaProgram, startKafka } from "../servers/kafka.js";
import { ask, postgresProgram, startPostgres } from "../servers/postgres.js";
import { until } from "../patterns/until.js";

const TOPIC = "orders";
const SESSION_MS = 1_000;
const PATIENCE_MS = 60_000;
const MESSAGES = 5;

interface Member {
  readonly child: ChildProcess;
  line(): Promise<any>;
}

function start(plan: object): Member {
  const script = path.join(import.meta.dirname, "children", "kafka-member.mjs");
  const child = spawn(process.execPath, ["--no-warnings", script, JSON.stringify(plan)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    line: async () => JSON.parse(((await lines.next()) as { value: string }).value),
  };
}

/** What the group has committed for the one partition. */
async function committed(looking: Consumer): Promise<bigint> {
  const topics = [{ topic: TOPIC, partitions: [0] }];
  return (await looking.listCommittedOffsets({ topics })).get(TOPIC)![0]!;
}

describeOn(postgresProgram, "with Postgres", () => {
  describeOptional(kafkaProgram, "a consumer that was frozen past its session", () => {
    it("writes nothing to the fenced table when it wakes, and commits no offset", async () => {
      await using broker = await startKafka();
      await using postgres = await startPostgres();
      await broker.topic(TOPIC, 1);
      const columns = "partition INTEGER, message TEXT, token TEXT, by TEXT";
      await ask(postgres.port, `CREATE TABLE written (${columns})`);
      const producer = new Producer({ clientId: "test", bootstrapBrokers: [broker.url] });
      const messages = Array.from({ length: MESSAGES }, (_, i) => Buffer.from(`m${i}`));
      await producer.send({
        messages: messages.map((value) => ({ topic: TOPIC, partition: 0, value })),
        acks: -1,
      });
      await producer.close();
      const places = { url: postgres.url, broker: broker.url, topic: TOPIC };
      const plan = { ...places, sessionTimeout: SESSION_MS };
      const own = { clientId: "looks", groupId: "g", bootstrapBrokers: [broker.url] };
      const looking = new Consumer(own);
      const frozen = start({ ...plan, by: "frozen", hold: true });
      let next: Member | undefined;
      try {
        expect(await frozen.line()).toEqual({ holding: 0 });
        frozen.child.kill("SIGSTOP");
        next = start({ ...plan, by: "next" });
        await until(async () => (await committed(looking)) === BigInt(MESSAGES), PATIENCE_MS);
        frozen.child.stdin!.write("go on\n");
        frozen.child.kill("SIGCONT");
        expect(await frozen.line()).toEqual({
          written: "StaleTokenError",
          committed: "LeaseLostError",
          state: "lost",
        });
        expect(await committed(looking)).toBe(BigInt(MESSAGES));
        const text = "SELECT DISTINCT by, count(*)::int AS n FROM written GROUP BY by";
        expect(await ask(postgres.port, text)).toEqual([{ by: "next", n: MESSAGES }]);
        next.child.kill("SIGTERM");
        expect(await once(next.child, "exit")).toEqual([0, null]);
      } finally {
        frozen.child.kill("SIGKILL");
        next?.child.kill("SIGKILL");
        await looking.close();
      }
    });
  });
});
