import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { UnavailableError } from "../../src/core/errors.js";
import { childStarter, type Child, type Job } from "./children.js";
import { openCounters, type Counters } from "./counters.js";

const resource = "accounts/7";

describe.each(["file", "sqlite"] as const)("%s fence, several processes", (kind) => {
  let starter: ReturnType<typeof childStarter>;
  const children: Child[] = [];
  const opened: Counters[] = [];
  let root: string;

  beforeAll(() => void (starter = childStarter()));
  afterAll(() => starter.clean());
  beforeEach(async () => void (root = await mkdtemp(path.join(tmpdir(), "tenure-fence-"))));
  afterEach(async () => {
    await Promise.all(children.splice(0).map((child) => child.kill()));
    for (const counters of opened.splice(0)) await counters.close();
    await rm(root, { recursive: true });
  });

  const place = (): string => path.join(root, "fenced");

  function counters(busyMs?: number): Counters {
    const made = openCounters(kind, place(), busyMs);
    opened.push(made);
    return made;
  }

  function start(job: Partial<Job>): Child {
    const whole = { kind: "arm", fence: kind, path: place(), resource, token: 1, times: 1 } as const;
    const child = starter.start({ ...whole, ...job });
    children.push(child);
    return child;
  }

  it("leaves a whole value, the last acknowledged or the next, wherever it is killed", async () => {
    for (let kill = 1; kill <= 6; kill++) {
      const child = start({ kind: "fill", token: 2 * kill });
      let acknowledged = 0;
      while (acknowledged < 2 + kill) acknowledged = Number(await child.next());
      await child.kill();
      const successor = await counters().arm(resource, 2 * kill + 1, "next");
      const text = await successor.text();
      const round = Number(text.split(" ")[0]);
      expect(round).toBeGreaterThanOrEqual(acknowledged);
      expect(text).toBe(`${round} `.repeat(50_000));
      await successor.fill(0);
    }
    if (kind === "file") {
      const [folder = ""] = await readdir(place());
      expect(await readdir(path.join(place(), folder))).toEqual(["current", "free"]);
    }
  });

  it("goes on after a process was killed inside a write, not while it lives", async () => {
    await counters().prepare();
    const child = start({ kind: "stop-inside", token: 5 });
    expect(await child.next()).toBe("inside");
    const blocked = counters(100).arm(resource, 6, "next");
    await expect(blocked).rejects.toThrow(UnavailableError);
    if (kind === "file") await expect(blocked).rejects.toThrow(`process ${child.process.pid}`);
    await child.kill();
    const successor = await counters().arm(resource, 6, "next");
    // What the killed one had not committed is not there.
    expect(await successor.get()).toBe(0);
  });

  it("lets several take over at once, and loses no write of any", async () => {
    await counters().prepare();
    const dead = start({ kind: "stop-inside", token: 5 });
    await dead.next();
    await dead.kill();
    const all = [1, 2, 3].map(() => start({ kind: "count", token: 6, times: 15 }));
    for (const child of all) expect(await child.ended).toBe(0);
    expect(await (await counters().arm(resource, 7, "next")).get()).toBe(45);
  });

  it("lets exactly the highest of several armings at once write afterwards", async () => {
    await counters().prepare();
    const tokens = [3, 1, 5, 2, 4];
    const answers = await Promise.all(
      tokens.map(async (token) => (await start({ token }).next()) as { answer: string }),
    );
    for (const { answer } of answers) expect(["wrote", "StaleTokenError"]).toContain(answer);
    expect(answers[2]).toEqual({ token: 5, answer: "wrote" });
    expect(await counters().mark(resource)).toMatchObject({ token: 5n, holder: "h5", n: 1 });
  });
});
