import { expect, it } from "vitest";
import { Sandbox } from "./cli-process.js";

const PROCESSES = 8;
const RUNS = 25;

it("8 processes × 25 runs: no increment is lost, tokens rise in the order of the runs", async () => {
  await using box = new Sandbox();
  box.write("value", "0");
  box.write("tokens", "");
  // Read, add and write are apart: two at once would lose one.
  const script = 'v=$(cat value); echo "$TENURE_TOKEN" >> tokens; echo $((v + 1)) > value\n';
  box.write("read-add-write.sh", `#!/bin/sh\n${script}`, 0o755);
  const ended = box.shell(`
    for p in $(seq ${PROCESSES}); do
      (for r in $(seq ${RUNS}); do
        $tenure run counter -- ./read-add-write.sh || echo failed $?
      done) &
    done
    wait`);
  expect(ended).toMatchObject({ code: 0, stdout: "", stderr: "" });
  expect(box.lines("value")).toEqual([String(PROCESSES * RUNS)]);
  const tokens = box.lines("tokens").map(BigInt);
  expect(tokens).toHaveLength(PROCESSES * RUNS);
  for (const [i, token] of tokens.entries()) {
    if (i > 0) expect(token > tokens[i - 1]!).toBe(true);
  }
}, 300_000);
