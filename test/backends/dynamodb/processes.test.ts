import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { GetItemCommand } from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { readyTable } from "../../conformance/dynamodb-subject.js";
import { bundledChild } from "../../servers/bundle.js";
import { dynaliteProgram, startDynamodb, type DynamodbServer } from "../../servers/dynamodb.js";
import { describeOn } from "../../servers/find.js";

interface Child {
  readonly process: ChildProcess;
  /** The next line that it says. */
  says(): Promise<Readonly<Record<string, string>>>;
  readonly ended: Promise<unknown>;
}

describeOn(dynaliteProgram, "processes on dynamodb", () => {
  let server: DynamodbServer;
  let table: string;
  const bundle = bundledChild(import.meta.dirname);
  beforeAll(async () => {
    server = await startDynamodb(dynaliteProgram);
    table = await readyTable(server);
  });
  afterAll(async () => {
    await server.dispose();
  });

  function start(name: string, order: "hold" | "once"): Child {
    const child = spawn(process.execPath, [bundle, server.url, table, name, order], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(child, "close");
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await ended;
    });
    return {
      process: child,
      ended,
      async says() {
        const { value, done } = await lines.next();
        if (done === true) throw new Error("the child ended without a word");
        return JSON.parse(value) as Record<string, string>;
      },
    };
  }

  const sum = async (name: string): Promise<bigint> => {
    const client = server.client();
    const Key = { pk: { S: `sum of ${name}` } };
    const { Item } = await client.send(
      new GetItemCommand({ TableName: table, Key, ConsistentRead: true }),
    );
    client.destroy();
    return BigInt(Item?.["value"]?.N ?? "0");
  };

  it("kill-restart: a holder that was killed is followed, with a higher token", async () => {
    const holder = start("killed", "once");
    const { token } = await holder.says();
    await holder.ended;
    const killed = start("killed", "hold");
    const second = BigInt((await killed.says())["token"]!);
    expect(second).toBe(BigInt(token!) + 1n);
    killed.process.kill("SIGKILL");
    await killed.ended;
    const next = start("killed", "once");
    expect(BigInt((await next.says())["token"]!)).toBe(second + 1n);
    await next.ended;
  });

  it("paused-holder: one that was frozen past its time writes nothing any more", async () => {
    const frozen = start("frozen", "hold");
    const { token } = await frozen.says();
    frozen.process.kill("SIGSTOP");
    await stopped(frozen.process.pid!);
    const next = start("frozen", "once");
    const said = await next.says();
    expect(BigInt(said["token"]!)).toBe(BigInt(token!) + 1n);
    await next.ended;
    const before = await sum("frozen");
    frozen.process.kill("SIGCONT");
    expect(await frozen.says()).toEqual({ state: "lost", refusal: "TENURE_STALE_TOKEN" });
    await frozen.ended;
    expect(await sum("frozen")).toBe(before);
  });
});

/** A signal is sent, and obeyed a moment later. */
async function stopped(pid: number): Promise<void> {
  if (process.platform !== "linux") return;
  const state = (): string => readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]![0]!;
  await expect.poll(state, { timeout: 10_000 }).toBe("T");
}
