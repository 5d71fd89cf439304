/** Processes that race for one store, and are killed. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { buildSync } from "esbuild";
import { onTestFinished } from "vitest";

/** A process that does what it is told; its program is a file that calls `serve`. */
export interface Child {
  readonly process: ChildProcess;
  /** Carries out an order and answers what the child says; rejects when it says an error. */
  tell(order: Order): Promise<any>;
  /** Resolves once it says a word in the middle of an order; see `say`. */
  told(word: string): Promise<void>;
  /** Whether it was killed. */
  readonly isDead: boolean;
  /** SIGKILL; resolves at its end. */
  kill(): Promise<void>;
  /** SIGSTOP: nothing of it runs. */
  freeze(): void;
  thaw(): void;
}

/** A child that ended before it answered. */
class ChildEnded extends Error {}

const bundles = new Map<string, string>();

/** Starts `children/<program>.ts`; it is killed when the test ends, if it still lives. */
export function startChild(program: string): Child {
  const bundle = bundles.get(program) ?? build(program);
  bundles.set(program, bundle);
  const child = spawn(process.execPath, ["--no-warnings", bundle], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  let isDead = false;
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const waiting: ((line: string) => void)[] = [];
  const words = new Map<string, () => void>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { word } = JSON.parse(line) as { word?: string };
    if (word === undefined) waiting.shift()?.(line);
    else words.get(word)?.();
  });
  child.stdin.on("error", () => undefined);
  void ended.then(() => (isDead = true));
  const kill = async (): Promise<void> => {
    isDead = true;
    child.kill("SIGKILL");
    await ended;
  };
  onTestFinished(kill);
  return {
    process: child,
    kill,
    get isDead() {
      return isDead;
    },
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    told: (word) => new Promise((resolve) => words.set(word, resolve)),
    async tell(order) {
      const line = new Promise<string>((resolve) => waiting.push(resolve));
      child.stdin.write(`${JSON.stringify(order)}\n`);
      const dead = ended.then(() => Promise.reject(new ChildEnded(`a child ended (${order.do})`)));
      const said = JSON.parse(await Promise.race([line, dead])) as Said;
      if (said.error !== undefined) throw new Error(said.error);
      return said.answer;
    },
  };
}

interface Said {
  readonly answer?: unknown;
  readonly error?: string;
}

/** An order for a child. */
export interface Order {
  readonly do: string;
  readonly [detail: string]: unknown;
}

/** A race of many processes, some of which are killed in the middle and replaced. */
export interface Race<A> {
  readonly program: string;
  readonly processes: number;
  /** The first order of every process. */
  readonly opening: Order;
  /** The order of a round, sent to all at once. */
  round(n: number): Order;
  /** Rounds are begun for so long, milliseconds, once all stand at the barrier. */
  readonly forMs: number;
  /** One is killed in each round, as long as no more than so many are being replaced. */
  readonly dying: number;
  /** Looks at what the living answered, once all have. */
  judge(n: number, answers: readonly A[]): void | Promise<void>;
}

/** How a race went. */
export interface Raced {
  readonly rounds: number;
  readonly killed: number;
  /** Longest time until all living processes had answered a round. */
  readonly longestMs: number;
}

const FEWEST_ROUNDS = 4;
/** Processes that start at once: more only stand in each other's way. */
const STARTING = 8;

/** Runs a race: all that live stand at the barrier before each round. */
export async function race<A>(plan: Race<A>): Promise<Raced> {
  const start = async (): Promise<Child> => {
    const child = startChild(plan.program);
    await child.tell(plan.opening);
    return child;
  };
  const racing: Child[] = [];
  while (racing.length < plan.processes) {
    const missing = Math.min(STARTING, plan.processes - racing.length);
    racing.push(...(await Promise.all(Array.from({ length: missing }, start))));
  }
  const coming = new Set<Promise<unknown>>();
  const replace = (): void => {
    const come = start().then((child) => void racing.push(child));
    coming.add(come);
    void come.finally(() => coming.delete(come)).catch(() => undefined);
  };
  const beganMs = performance.now();
  let rounds = 0;
  let killed = 0;
  let lastMs = 10;
  let longestMs = 0;
  for (; rounds < FEWEST_ROUNDS || performance.now() - beganMs < plan.forMs; rounds++) {
    const field = [...racing];
    const fromMs = performance.now();
    const answers = field.map((child) =>
      child.tell(plan.round(rounds)).catch((error: unknown) => {
        if (child.isDead && error instanceof ChildEnded) return undefined;
        throw error;
      }),
    );
    const death =
      coming.size < plan.dying
        ? setTimeout(() => {
            killed += 1;
            racing.splice(racing.indexOf(field[0]!), 1);
            void field[0]!.kill();
            replace();
          }, Math.random() * lastMs)
        : undefined;
    const settled = (await Promise.all(answers)) as (A | undefined)[];
    clearTimeout(death);
    lastMs = performance.now() - fromMs;
    longestMs = Math.max(longestMs, lastMs);
    const told = settled.filter((answer): answer is A => answer !== undefined);
    await plan.judge(rounds, told);
  }
  await Promise.all(coming);
  await Promise.all(racing.map((child) => child.kill()));
  return { rounds, killed, longestMs };
}

function build(program: string): string {
  // Beside the installed packages, so that the bundle finds the client libraries it leaves outside.
  const folder = mkdtempSync(join(import.meta.dirname, "../../node_modules/.tenure-patterns-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const outfile = join(folder, `${program}.mjs`);
  buildSync({
    entryPoints: [join(import.meta.dirname, `children/${program}.ts`)],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["better-sqlite3", "pg", "postgres", "mysql2", "redis", "ioredis", "iovalkey"],
    logLevel: "silent",
  });
  return outfile;
}
