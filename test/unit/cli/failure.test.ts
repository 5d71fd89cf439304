import { afterEach, expect, test, vi } from "vitest";
import { tellFailure } from "../../../src/cli/failure.js";
import { parseDuration } from "../../../src/core/duration.js";
import { ArgumentRangeError, ArgumentTypeError } from "../../../src/core/errors.js";

afterEach(() => vi.restoreAllMocks());

/** What the command says of an error. */
function said(error: unknown): string {
  const written: string[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => written.push(String(text)) > 0);
  tellFailure(error, false);
  return written.join("");
}

function thrown(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error("it threw nothing");
}

test("a duration, which had its unit as a flag, is told with one, and not that it needs one", () => {
  const error = thrown(() => parseDuration(5, "ttl", { minMs: 10 }));
  expect(said(error)).toBe("tenure: --ttl must be at least 10ms and finite, got 5 ms\n");
  const grace = new ArgumentRangeError("grace", 20_000, "below 10000 ms, a third of the TTL");
  expect(said(grace)).toContain("--grace must be below 10000 ms, a third of the TTL, got 20000 ms");
});

test("what is no duration is told as it is", () => {
  expect(said(new ArgumentTypeError("url", "x", "a store URL"))).toContain(
    '--store must be a store URL, got "x"\n',
  );
  expect(said(new ArgumentTypeError("count", 5, "left out"))).toContain(
    "count must be left out, got 5\n",
  );
});
