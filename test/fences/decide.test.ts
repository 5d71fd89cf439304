import { describe, expect, it } from "vitest";
import {
  decide,
  rebase,
  type FenceRequest,
  type MarkRecord,
  type Scope,
} from "../../src/fences/decide.js";

const here: Scope = { storeId: "store-1", name: "acct:7" };
const elsewhere: Scope[] = [
  { storeId: "store-2", name: "acct:7" },
  { storeId: "store-1", name: "acct:8" },
];
const small = [1, 2, 3];
const tokens = [9n, 10n, 2n ** 31n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n];
const holders = ["a", "b"];

function* marks(): Generator<MarkRecord> {
  for (const token of tokens) {
    for (const holder of holders) {
      for (const arm of small) {
        for (const n of [0, ...small]) yield { scope: here, token, holder, arm, n, past: [] };
      }
    }
  }
}

function* requests(): Generator<FenceRequest> {
  for (const scope of [here, ...elsewhere]) {
    for (const op of ["arm", "read", "write"] as const) {
      for (const { token, holder, arm, n } of marks()) {
        yield { op, resource: "r", scope, token, holder, arm, n };
      }
    }
  }
}

/** The order of marks: a number of three digits, the token first. */
function compare(a: Omit<MarkRecord, "past">, b: FenceRequest): number {
  const parts = [a.token - b.token, BigInt(a.arm - b.arm), BigInt(a.n - b.n)];
  return Number(parts.find((part) => part !== 0n) ?? 0n);
}

/** I4 of the invariants, said once more and differently. */
function mayPass(mark: MarkRecord | null, request: FenceRequest): boolean {
  if (mark === null) return request.op === "arm";
  if (request.scope !== mark.scope) return false;
  if (request.token === mark.token && request.holder !== mark.holder) return false;
  const sameArming = request.token === mark.token && request.arm === mark.arm;
  switch (request.op) {
    case "arm":
      return !sameArming && compare(mark, request) < 0;
    case "read":
      return sameArming;
    case "write":
      return sameArming && request.n > mark.n;
  }
}

describe("decide", () => {
  it("accepts exactly what invariant I4 allows, for every mark and request of a few", () => {
    let accepted = 0;
    let refused = 0;
    const wrong: unknown[] = [];
    for (const mark of [null, ...marks()]) {
      for (const request of requests()) {
        const verdict = decide(mark, request);
        if (verdict.accepted !== mayPass(mark, request)) wrong.push({ mark, request });
        if (verdict.accepted) accepted++;
        else refused++;
      }
    }
    expect(wrong).toEqual([]);
    expect(accepted).toBeGreaterThan(10_000);
    expect(refused).toBeGreaterThan(100_000);
  });

  it("raises the mark to the accepted arming or write, and leaves it at a read", () => {
    for (const mark of marks()) {
      for (const request of requests()) {
        const verdict = decide(mark, request);
        if (!verdict.accepted) {
          if (verdict.record !== mark) throw new Error("a refusal changed the mark");
        } else if (request.op === "read") {
          if (verdict.record !== mark) throw new Error("a read changed the mark");
        } else {
          if (compare(mark, request) >= 0) throw new Error("the mark did not grow");
          const { scope, token, holder, arm, n } = request;
          const { past } = mark;
          if (compare(verdict.record, request) !== 0) throw new Error("another mark was set");
          if (mark.token === 9n && token === 10n) {
            expect(verdict.record).toEqual({ scope, token, holder, arm, n, past });
          }
        }
      }
    }
  });

  const mark: MarkRecord = { scope: here, token: 34n, holder: "a", arm: 2, n: 3, past: [] };
  const write: FenceRequest = { ...mark, op: "write", resource: "r", n: 4 };

  it.each([
    ["an unarmed write", null, write, "unarmed"],
    ["an unarmed read", null, { ...write, op: "read" }, "unarmed"],
    ["an older token", mark, { ...write, token: 33n, holder: "b" }, "stale"],
    ["an arming with an older token", mark, { ...write, op: "arm", token: 33n }, "stale"],
    ["a newer token that has not armed", mark, { ...write, token: 35n, holder: "b" }, "unarmed"],
    ["the same token of another holder", mark, { ...write, holder: "b" }, "conflict"],
    ["its arming", mark, { ...write, op: "arm", holder: "b", arm: 9 }, "conflict"],
    ["an older arming", mark, { ...write, arm: 1 }, "superseded"],
    ["an arming that came twice", mark, { ...write, op: "arm" }, "superseded"],
    ["an arming that the mark forgot", mark, { ...write, arm: 3 }, "unarmed"],
    ["a write that came twice", mark, { ...write, n: 3 }, "repeated"],
    ["another lock", mark, { ...write, scope: elsewhere[1]!, token: 99n }, "scope"],
    ["another store", mark, { ...write, op: "arm", scope: elsewhere[0]!, token: 99n }, "scope"],
  ] as const)("tells why it refuses %s", (_, record, request, why) => {
    expect(decide(record, request)).toMatchObject({ accepted: false, why });
  });
});

describe("rebase", () => {
  const mark: MarkRecord = { scope: here, token: 34n, holder: "a", arm: 2, n: 3, past: [] };
  const [other, third] = elsewhere as [Scope, Scope];
  const move = (record: MarkRecord | null, to: Scope, token?: bigint): MarkRecord =>
    rebase(record, {
      resource: "r",
      to,
      reason: "moved",
      ...(token === undefined ? {} : { lease: { token, holder: "z" } }),
    });
  const arm = (record: MarkRecord, token: bigint, holder: string, number: number): boolean =>
    decide(record, {
      op: "arm", resource: "r", scope: record.scope, token, holder, arm: number, n: 0,
    }).accepted;

  it("changes nothing for a resource that is in the scope already", () => {
    expect(move(mark, here)).toBe(mark);
    expect(move(mark, here, 1n)).toBe(mark);
  });

  it("lets any token of the new scope arm, or none older than the lease it was given", () => {
    expect(arm(move(mark, other), 1n, "z", 1)).toBe(true);
    expect(arm(move(mark, other, 5n), 5n, "z", 1)).toBe(true);
    expect(arm(move(mark, other, 5n), 5n, "y", 1)).toBe(false);
    expect(arm(move(mark, other, 5n), 4n, "z", 1)).toBe(false);
  });

  it("refuses the old scope's armed handles", () => {
    const moved = move(mark, other);
    expect(decide(moved, { ...mark, op: "write", resource: "r", n: 4 })).toMatchObject({
      accepted: false,
      why: "scope",
    });
  });

  it("lowers nothing on the way there and back, and revives no handle", () => {
    for (const path of [[other], [other, third], [other, third, other], [third, other, third]]) {
      let record = mark;
      for (const scope of path) record = move(record, scope, 1n);
      record = move(record, here, 30n);
      expect(record).toMatchObject({ token: 34n, holder: "a", arm: 3, n: 0 });
      expect(arm(record, 33n, "b", 1)).toBe(false);
      expect(decide(record, { ...mark, op: "write", resource: "r", n: 4 }).accepted).toBe(false);
      expect(record.past).toHaveLength(new Set(path).size);
    }
    // The same lease again: its arming before the move must not be one of those after it.
    expect(move(move(mark, other), here, 34n)).toMatchObject({ token: 34n, holder: "a", arm: 3 });
    const newer = move(move(mark, other), here, 35n);
    expect(newer).toMatchObject({ token: 35n, holder: "z", arm: 0 });
  });

  it("starts a resource that was never armed", () => {
    expect(move(null, here)).toMatchObject({ scope: here, token: 0n, past: [] });
  });
});
