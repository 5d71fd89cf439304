/** What becomes of answers that fail, or do not come, with clients that are told how to fail. */
import { expect, it } from "vitest";
import { Commits } from "../../../src/partitions/kafka/commits.js";
import type { FetchAnswer, KafkaConsumer } from "../../../src/partitions/kafka/client.js";
import { Reading } from "../../../src/partitions/kafka/reading.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";

const ASKED = { topic: "orders", brokers: ["a:1", "b:1"] };

/** An error of the library. */
function failure(properties: Readonly<Record<string, unknown>>, says = "failed"): Error {
  const error = Object.assign(new Error(says), properties);
  return Object.assign(error, {
    findBy: (property: string, value: unknown) => (properties[property] === value ? error : null),
  });
}

const NO_ANSWER = failure({ code: "PLT_KFK_NETWORK", canRetry: false });

interface Made {
  readonly memberId: string | null;
  readonly generationId: number;
  isClosed: boolean;
}

/** Clients that answer what `answers` say, in order of being made, and a record of them. */
function library(methods: (nth: number) => Partial<KafkaConsumer>): {
  readonly made: Made[];
  readonly errors: unknown[];
  readonly parts: ConstructorParameters<typeof Commits>[0];
  readonly sim: ReturnType<typeof simulatedRuntime>;
} {
  const sim = simulatedRuntime({ seed: 1 });
  const made: Made[] = [];
  const errors: unknown[] = [];
  const create = (): KafkaConsumer => {
    const client = {
      memberId: null,
      generationId: 0,
      isClosed: false,
      close: async () => void (client.isClosed = true),
      ...methods(made.length),
    };
    made.push(client);
    return client as unknown as KafkaConsumer;
  };
  const parts = {
    create,
    asked: ASKED,
    timers: sim.runtime.timers,
    within: <R>(answer: Promise<R>) => answer,
    failed: (error: unknown) => void errors.push(error),
  };
  return { made, errors, parts, sim };
}

function owner(): {
  readonly partition: number;
  readonly signal: AbortSignal;
  readonly assertOwned: () => void;
  readonly end: (reason: Error) => void;
} {
  const control = new AbortController();
  const { signal } = control;
  const assertOwned = (): void => signal.throwIfAborted();
  return { partition: 0, signal, assertOwned, end: (reason) => control.abort(reason) };
}

it("a commit that got no answer is sent again by a fresh client of the same pin", async () => {
  const sent: bigint[] = [];
  const { made, errors, parts, sim } = library((nth) => ({
    commit: async ({ offsets }) => {
      sent.push(offsets[0]!.offset);
      if (nth < 2) throw NO_ANSWER;
    },
  }));
  const commits = new Commits(parts);
  commits.pin("m", 7);
  await sim.until(commits.commit(owner(), 5n));
  expect(sent).toEqual([5n, 5n, 5n]);
  expect(made.map(({ memberId, generationId }) => [memberId, generationId])).toEqual(
    Array(3).fill(["m", 7]),
  );
  expect(made.map(({ isClosed }) => isClosed)).toEqual([true, true, false]);
  expect(errors).toHaveLength(2);
  commits.close();
  expect(made[2]!.isClosed).toBe(true);
});

it("a commit without an answer ends with its ownership, and leaves no timer", async () => {
  const { parts, sim, made } = library(() => ({ commit: () => Promise.reject(NO_ANSWER) }));
  const commits = new Commits(parts);
  commits.pin("m", 7);
  const mine = owner();
  const committing = commits.commit(mine, 5n);
  committing.catch(() => undefined);
  await sim.advance(5_000);
  const tried = made.length;
  expect(tried).toBeGreaterThan(3);
  const lost = new Error("lost");
  mine.end(lost);
  await expect(committing).rejects.toBe(lost);
  await sim.advance(5_000);
  expect(made).toHaveLength(tried);
  expect(sim.pendingTimers()).toBe(0);
});

it("a commit that comes after its ownership sends nothing", async () => {
  const { parts, made } = library(() => ({ commit: () => Promise.reject(new Error("was sent")) }));
  const commits = new Commits(parts);
  const mine = owner();
  const waiting = commits.commit(mine, 5n);
  mine.end(new Error("lost"));
  await expect(waiting).rejects.toThrow("lost");
  commits.pin("m", 7);
  await expect(commits.commit(mine, 6n)).rejects.toThrow("lost");
  expect(made).toHaveLength(1);
});

it("a commit that the broker refuses for good is told at once", async () => {
  const apiId = "GROUP_AUTHORIZATION_FAILED";
  const refused = failure({ code: "PLT_KFK_PROTOCOL", apiId, canRetry: false }, "not yours");
  const { parts, made } = library(() => ({ commit: () => Promise.reject(refused) }));
  const commits = new Commits(parts);
  commits.pin("m", 7);
  await expect(commits.commit(owner(), 5n)).rejects.toMatchObject({
    name: "UnavailableError",
    retryable: false,
    message: `Kafka at a:1, b:1 refuses to commit an offset: ${apiId}: not yours`,
  });
  expect(made).toHaveLength(1);
});

/** Two coordinators, the first frozen and deposed: it reads from memory, and writes nothing. */
function deposed(refusal: Error, knows: bigint): ReturnType<typeof library> & { position: bigint } {
  const store = { position: 9n };
  const made = library((nth) => {
    const isDeposed = nth === 0;
    return {
      listCommittedOffsets: async () => new Map([["orders", [isDeposed ? knows : store.position]]]),
      commit: async ({ offsets }) => {
        if (isDeposed) throw refusal;
        store.position = offsets[0]!.offset;
      },
    };
  });
  return Object.assign(store, made);
}

const NOT_COORDINATOR = failure({ code: "PLT_KFK_PROTOCOL", apiId: "NOT_COORDINATOR" });
const OLD_GENERATION = failure({ code: "PLT_KFK_PROTOCOL", needsRejoin: true });

it.each([
  ["cannot write", NOT_COORDINATOR],
  ["does not know the generation", OLD_GENERATION],
])("an owner does not begin where a coordinator says that %s", async (_what, refusal) => {
  const store = deposed(refusal, 4n);
  const commits = new Commits(store.parts);
  commits.pin("m", 7);
  const mine = owner();
  expect(await store.sim.until(commits.begin(mine, mine.signal))).toBe(9n);
  expect(store.position).toBe(9n);
  expect(store.made.map(({ generationId }) => generationId)).toEqual([7, 7]);
});

it("what a deposed coordinator refused is committed to the present one at once", async () => {
  const store = deposed(OLD_GENERATION, 4n);
  const commits = new Commits(store.parts);
  commits.pin("m", 7);
  await store.sim.until(commits.commit(owner(), 10n));
  expect(store.position).toBe(10n);
  expect(store.errors).toEqual([]);
});

it("an owner of what was never committed begins without a commit", async () => {
  const { parts, sim } = library(() => ({
    listCommittedOffsets: async () => new Map([["orders", [-1n]]]),
    commit: () => Promise.reject(new Error("was sent")),
  }));
  const commits = new Commits(parts);
  commits.pin("m", 7);
  const mine = owner();
  expect(await sim.until(commits.begin(mine, mine.signal))).toBeUndefined();
});

it("an owner that is revoked before it knows where to begin asks no more", async () => {
  const { parts, sim, made } = library(() => ({
    listCommittedOffsets: () => Promise.reject(NO_ANSWER),
  }));
  const commits = new Commits(parts);
  commits.pin("m", 7);
  const revoked = new AbortController();
  const beginning = commits.begin(owner(), revoked.signal);
  beginning.catch(() => undefined);
  await sim.advance(1_200);
  const asked = made.length;
  const reason = new Error("revoked");
  revoked.abort(reason);
  await expect(beginning).rejects.toBe(reason);
  await sim.advance(5_000);
  expect(made).toHaveLength(asked);
  expect(sim.pendingTimers()).toBe(0);
});

const metadata = (leaders: readonly number[]) => async () => ({
  topics: new Map([
    [
      "orders",
      {
        id: "id",
        partitionsCount: leaders.length,
        partitions: leaders.map((leader) => ({ leader })),
      },
    ],
  ]),
});

/** One record at an offset. */
function records(partitionIndex: number, offset: bigint): FetchAnswer["responses"][0]["partitions"] {
  const record = { offsetDelta: 0, timestampDelta: 0n, key: null, value: null, headers: [] };
  const batch = { firstOffset: offset, firstTimestamp: 0n, lastOffsetDelta: 0, attributes: 0 };
  return [{ partitionIndex, errorCode: 0, records: [{ ...batch, records: [record] }] }];
}

it("only the reader whose offset is gone is told so", async () => {
  let isFirst = true;
  const { parts, errors, sim } = library(() => ({
    metadata: metadata([1, 1]),
    fetch: async () => {
      if (!isFirst) return { responses: [{ topicId: "id", partitions: records(1, 9n) }] };
      isFirst = false;
      const gone = { partitionIndex: 0, errorCode: 1 };
      const partitions = [gone, { partitionIndex: 1, errorCode: 0 }];
      throw failure({
        code: "PLT_KFK_RESPONSE",
        response: { responses: [{ topicId: "id", partitions }] },
      });
    },
  }));
  const reading = new Reading(parts);
  const { signal } = owner();
  const gone = reading.next(0, 0n, signal);
  gone.catch(() => undefined);
  const there = reading.next(1, 9n, signal);
  expect(await sim.until(there)).toMatchObject({ next: 10n });
  await expect(gone).rejects.toMatchObject({ backend: "kafka" });
  expect(errors).toEqual([]);
  reading.close();
});

it("a broker that does not answer keeps nobody waiting for another one", async () => {
  const { parts, sim } = library(() => ({
    metadata: metadata([1, 2]),
    fetch: ({ node }) =>
      node === 1
        ? new Promise(() => undefined)
        : Promise.resolve({ responses: [{ topicId: "id", partitions: records(1, 4n) }] }),
  }));
  const reading = new Reading(parts);
  const mine = owner();
  const silent = reading.next(0, 0n, mine.signal);
  expect(await sim.until(reading.next(1, 4n, mine.signal))).toMatchObject({ next: 5n });
  expect(await sim.until(reading.next(1, 4n, mine.signal))).toMatchObject({ next: 5n });
  mine.end(new Error("revoked"));
  expect(await silent).toBeUndefined();
});
