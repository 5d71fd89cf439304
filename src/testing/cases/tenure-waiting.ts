import { NotAcquiredError, OutcomeUnknownError } from "../../core/errors.js";
import { must } from "../broken-promise.js";
import { allOf, withCore, type ConformanceCase } from "../case.js";

const SOON_MS = 1_000;
/** Short enough that an offer does not lapse meanwhile, which would also bring the turn round. */
const TOUCH_SLACK_MS = 600;
/** The core looks every five seconds, whether or not it was told. */
const FALLBACK_MS = 7_000;

const CROWD = 100;
/** The release, the confirmation, and a touch or a look that falls due meanwhile. */
const FEW_CALLS = 8;

/** Waiting, giving up, and lost answers, with the core on top of the backend. */
export const tenureWaitingCases: readonly ConformanceCase[] = [
  {
    id: "tenure-wait-limit",
    title: "a waiter whose time is over gets NotAcquiredError and leaves nothing (case 17)",
    applies: withCore,
    async run(trial) {
      const [{ tenure: a }, { tenure: b }] = [await trial.tenure(), await trial.tenure()];
      const held = await a.acquire(trial.name());
      const late = b.acquire(trial.name(), { wait: 1_000 }).then(
        () => undefined,
        (error: unknown) => error,
      );
      const error = await trial.within(trial.wakeWithinMs, late, "acquire with wait: 1 s");
      must(error instanceof NotAcquiredError, "acquire with wait: 1 s", String(error));
      await held.release();
      const next = await trial.within(SOON_MS, a.tryAcquire(trial.name()), "tryAcquire");
      must(next !== null, "a waiter that gave up leaves nothing", "the name is not free");
    },
  },
  {
    id: "tenure-abort",
    title: "an abort ends the waiting at once with the signal's own reason (case 18)",
    applies: withCore,
    async run(trial) {
      const [{ tenure: a }, b] = [await trial.tenure(), await trial.tenure()];
      const held = await a.acquire(trial.name());
      const controller = new AbortController();
      const reason = new Error("changed my mind");
      const waiting = b.tenure.acquire(trial.name(), { signal: controller.signal }).then(
        () => undefined,
        (error: unknown) => error,
      );
      await trial.advance(50);
      controller.abort(reason);
      const seen = await trial.within(500, waiting, "acquire with a signal");
      must(seen === reason, "acquire rejects with the signal's own reason", String(seen));
      const before = b.faulty.calls.length;
      const refused = b.tenure.acquire(trial.name("other"), { signal: AbortSignal.abort(reason) });
      const early = await refused.catch((error: unknown) => error);
      must(early === reason, "acquire rejects with the signal's own reason", String(early));
      const asked = b.faulty.calls.slice(before).flatMap(({ names }) => names);
      const silent = !asked.includes(trial.name("other"));
      must(silent, "a call aborted before it began does no I/O", asked.join());
      await held.release();
      const next = await trial.within(SOON_MS, a.tryAcquire(trial.name()), "tryAcquire");
      must(next !== null, "a waiter that gave up leaves nothing", "the name is not free");
    },
  },
  {
    id: "tenure-lost-grant",
    title: "a grant whose answer was lost is won by a repeat, or gone within one TTL (case 20)",
    applies: withCore,
    async run(trial) {
      const [a, { tenure: b }] = [await trial.tenure(), await trial.tenure()];
      a.faulty.plan = ({ operation, nth }) =>
        operation === "acquire" && nth === 1 ? { kind: "lose-reply" } : undefined;
      const ttl = trial.shortTtlMs;
      const attempt = a.tenure.tryAcquire(trial.name(), { ttl }).catch((error: unknown) => {
        const unknown = error instanceof OutcomeUnknownError;
        must(unknown, "a lost answer is told as unknown", String(error));
        return null;
      });
      const lease = await trial.within(10_000, attempt, "tryAcquire after a lost answer");
      if (lease !== null) {
        const shown = await b.inspect(trial.name());
        must(shown?.token === lease.token, "a repeat gets the same token", String(shown?.token));
        await lease.release();
      }
      const again = a.tenure.acquire(trial.name());
      await trial.within(ttl + trial.wakeWithinMs, again, "an attempt never waits behind itself");
    },
  },
  {
    id: "tenure-lost-notice",
    title: "a waiter whose notice was lost is served by the next touch or look (case 22)",
    applies: allOf(withCore, ({ manifest }) =>
      manifest.waiting === "poll" ? 'waiting "poll" gives no notices' : true,
    ),
    async run(trial) {
      const [{ tenure: a }, b] = [await trial.tenure(), await trial.tenure()];
      const held = await a.acquire(trial.name());
      b.faulty.plan = ({ operation }) =>
        operation === "turn" || operation === "wake" ? { kind: "hang", applied: false } : undefined;
      const waiting = b.tenure.acquire(trial.name());
      await trial.advance(50);
      await held.release();
      const { waiting: kind } = b.faulty;
      const limitMs = kind.kind === "queue" ? kind.touchEveryMs + TOUCH_SLACK_MS : FALLBACK_MS;
      const lease = await trial.within(limitMs, waiting, "acquire whose notice was lost");
      trial.rises(held.token, lease.token, "a hand-over");
    },
  },
  {
    id: "tenure-one-woken",
    title: `one release wakes one of ${CROWD} waiters, with a handful of calls (case 24)`,
    applies: withCore,
    async run(trial) {
      const { tenure, faulty } = await trial.tenure();
      const held = await tenure.acquire(trial.name());
      const granted: unknown[] = [];
      const waiters = Array.from({ length: CROWD }, () =>
        tenure.acquire(trial.name()).then((lease) => granted.push(lease)),
      );
      const first = Promise.race(waiters);
      for (const waiter of waiters) waiter.catch(() => undefined);
      await trial.advance(500);
      // A store that is slow to let all of them in is no store that wakes all.
      const isIn = (): boolean =>
        faulty.waiting.kind !== "queue" ||
        faulty.calls.filter(({ operation }) => operation === "turn").length >= CROWD;
      for (let looks = 0; !isIn() && looks < 20; looks++) await trial.advance(100);
      const before = faulty.calls.length;
      await held.release();
      await trial.within(trial.wakeWithinMs, first, "acquire after a release");
      const calls = faulty.calls.slice(before).map(({ operation }) => operation);
      must(granted.length === 1, "one holder at a time", `${granted.length} were granted`);
      must(calls.length <= FEW_CALLS, "one release wakes one waiter", calls.join(" "));
    },
  },
  {
    id: "tenure-two-at-once",
    title: "of two calls at once on one object one waits, and its clean-up is its own (case 29)",
    applies: withCore,
    async run(trial) {
      const { tenure } = await trial.tenure();
      const calls = [1, 2].map((_) =>
        tenure.acquire(trial.name(), { wait: 600 }).catch((error: unknown) => error),
      );
      const both = await trial.within(trial.wakeWithinMs, Promise.all(calls), "acquire twice");
      const leases = both.flatMap((one) => (one instanceof Error ? [] : [one]));
      const seen = `${leases.length} of two were granted`;
      must(leases.length === 1, "one holder at a time", seen);
      must(both.some((one) => one instanceof NotAcquiredError), "the loser is told", seen);
      const lease = leases[0] as Awaited<ReturnType<typeof tenure.acquire>>;
      await trial.within(SOON_MS, lease.renew(), "renew of the winner");
      lease.assertHeld();
      const next = tenure.acquire(trial.name());
      await lease.release();
      await trial.within(SOON_MS, next, "acquire after the winner's release");
    },
  },
];
