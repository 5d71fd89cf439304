/**
 * A process that uses a fence, for tests with several of them. Does the one job in its arguments,
 * prints a line of JSON per step, and goes on until it is done or killed.
 */
import { SupersededError } from "../../src/core/errors.js";
import type { Job } from "./children.js";
import { openCounters, type Counter } from "./counters.js";

const job = JSON.parse(process.argv[2] ?? "{}") as Job;
const counters = openCounters(job.fence, job.path);
const arm = (holder: string): Promise<Counter> => counters.arm(job.resource, job.token, holder);
const say = (line: unknown): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

function stopHere(): never {
  say("inside");
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
}

switch (job.kind) {
  case "arm": {
    try {
      await (await arm(`h${job.token}`)).add(1);
      say({ token: job.token, answer: "wrote" });
    } catch (error) {
      say({ token: job.token, answer: (error as Error).name });
    }
    break;
  }
  case "fill": {
    const counter = await arm("filler");
    for (let round = 1; ; round++) {
      await counter.fill(round);
      say(round);
    }
  }
  case "stop-inside": {
    await (await arm("stopper")).add(1, stopHere);
    break;
  }
  case "count": {
    // All are tasks of one holder: each arming ends the others' handles.
    let done = 0;
    while (done < job.times) {
      try {
        await (await arm("shared")).add(1);
        done += 1;
      } catch (error) {
        if (!(error instanceof SupersededError)) throw error;
      }
    }
    break;
  }
}
await counters.close();
