import { must } from "../broken-promise.js";
import { allOf, whereStoreExpires, withCore, type ConformanceCase } from "../case.js";
import { utf8Bytes } from "../../core/names.js";

const SOON_MS = 1_000;

/** Whose lease it is, with the core on top of the backend. */
export const tenureOwnershipCases: readonly ConformanceCase[] = [
  {
    id: "tenure-abort-in-work",
    title: "the caller's abort during the work does not keep the lease from its release (case 19)",
    applies: withCore,
    async run(trial) {
      const [{ tenure: a }, { tenure: b }] = [await trial.tenure(), await trial.tenure()];
      const controller = new AbortController();
      const held = a.hold(trial.name(), { signal: controller.signal }, () => {
        controller.abort(new Error("enough"));
        return "done";
      });
      const outcome = held.then(String, () => "rejected");
      await trial.within(trial.wakeWithinMs, outcome, "hold");
      const next = await trial.within(SOON_MS, b.tryAcquire(trial.name()), "tryAcquire");
      must(next !== null, "hold releases when its work has ended", "the name is not free");
    },
  },
  {
    id: "tenure-late-release",
    title: "the release of an expired lease answers not-held, once and without retries (case 25)",
    applies: allOf(withCore, whereStoreExpires),
    async run(trial) {
      const { tenure, faulty } = await trial.tenure();
      const ttl = trial.shortTtlMs;
      const lease = await tenure.acquire(trial.name(), { ttl, renew: false });
      await trial.expire(ttl);
      const before = faulty.calls.length;
      const first = await trial.within(SOON_MS, lease.release(), "release");
      must(first === "not-held", "release of an expired lease", `it answered ${first}`);
      const asked = faulty.calls.length - before;
      must(asked <= 1, "release asks the store once", `${asked} calls`);
      const second = await trial.within(SOON_MS, lease.release(), "a second release");
      must(second === first, "a second release", `it answered ${second}`);
      const more = faulty.calls.length - before - asked;
      must(more === 0, "a second release asks nobody", `${more} calls`);
    },
  },
  {
    id: "tenure-stale-holder",
    title: "a holder that was replaced keeps its own token and harms nobody (cases 26, 28, 34)",
    applies: withCore,
    async run(trial) {
      const [{ tenure: a }, { tenure: b }] = [await trial.tenure(), await trial.tenure()];
      const ttl = trial.shortTtlMs;
      const old = await a.acquire(trial.name(), { ttl, renew: false });
      const { token } = old;
      await trial.expire(ttl);
      const limitMs = ttl + trial.wakeWithinMs;
      const next = await trial.within(limitMs, b.acquire(trial.name()), "acquire after an expiry");
      trial.rises(token, next.token, "an expiry");
      must(old.token === token, "a lease keeps its token", `${old.token} after ${token}`);
      must(old.state === "lost", "a lease past its deadline", `its state is ${old.state}`);
      await trial.within(SOON_MS, old.release(), "release of a lost lease");
      const shown = await a.inspect(trial.name());
      const same = shown !== null && shown.token === next.token;
      must(same, "a stale release", `the store shows token ${shown?.token} of ${next.token}`);
      await trial.within(SOON_MS, next.renew(), "renew of the next holder");
      next.assertHeld();
    },
  },
  {
    id: "tenure-names",
    title: "bad names are refused before any I/O, and others are independent (case 41)",
    applies: withCore,
    async run(trial) {
      const { tenure, faulty } = await trial.tenure();
      const before = faulty.calls.length;
      const tooLong = trial.name("x".repeat(513 - utf8Bytes(trial.name(""))));
      for (const name of ["", "a\0b", tooLong]) {
        const error = await tenure.tryAcquire(name).catch((reason: unknown) => reason);
        const refused = error instanceof TypeError || error instanceof RangeError;
        must(refused, "a bad name is the caller's mistake", `${name.length} characters: accepted`);
      }
      must(faulty.calls.length === before, "a bad name is refused before any I/O", "it was sent");
      for (const name of ["a", "ab", "a/b", "a-0000000001", "a b", "\u00e9", "e\u0301", "a:b"]) {
        const lease = await tenure.tryAcquire(trial.name(name));
        must(lease !== null, "names are independent", `${JSON.stringify(name)} is held`);
      }
    },
  },
];
