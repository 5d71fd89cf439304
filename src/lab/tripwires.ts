/**
 * Real time and real randomness, out of reach while a simulated event has its consequences: whoever
 * asks for them would make a run that no seed repeats. So each such call throws, and ends the run.
 *
 * Only simulated code meets them. The engine gives every event a turn of the real loop of its own,
 * with all promise reactions that follow from it; a wire is live within such a turn, and lets
 * everybody else through: the timers of a test runner, say, which fire between two of them.
 *
 * Not caught: a function that was taken from its object before the run began, and time that comes
 * out of files, sockets and other processes.
 */

/** Somebody in a simulated world asked for real time or randomness. */
export class TripwireError extends Error {
  override readonly name = "TripwireError";

  constructor(call: string, instead: string) {
    super(`${call} was called in a simulated world: use ${instead}, so that the seed decides`);
  }
}

const CLOCK = "the clock of the runtime";
const TIMERS = "the timers of the runtime";
const RANDOM = "the randomness of the runtime";

type Callable = (...args: never[]) => unknown;
type Target = Record<string, unknown>;

/** Told of a tripped wire; undefined between two turns. */
let inside: ((error: TripwireError) => void) | undefined;
let worlds = 0;
let restore: (() => void) | undefined;

/** A turn of a simulated world begins: `tell` hears of each wire that is tripped in it. */
export function enterTurn(tell: (error: TripwireError) => void): void {
  inside = tell;
}

/** The turn is over. */
export function leaveTurn(): void {
  inside = undefined;
}

/** Sets the wires until the answer is called. Worlds that run at a time share one set. */
export function setTripwires(): () => void {
  if (worlds++ === 0) restore = install();
  let isSet = true;
  return () => {
    if (!isSet) return;
    isSet = false;
    if (--worlds === 0) restore?.();
  };
}

function trip(call: string, instead: string): void {
  if (inside === undefined) return;
  const error = new TripwireError(call, instead);
  // Whoever asked may swallow it; the run does not.
  inside(error);
  throw error;
}

function install(): () => void {
  const undo: (() => void)[] = [];
  const replace = (target: Target, name: string, value: unknown): void => {
    const own = Object.getOwnPropertyDescriptor(target, name);
    Object.defineProperty(target, name, { configurable: true, writable: true, value });
    undo.push(() => {
      if (own === undefined) delete target[name];
      else Object.defineProperty(target, name, own);
    });
  };
  const wire = (target: Target, owner: string, name: string, instead: string): void => {
    const real = target[name];
    // One of Node's cannot be replaced, and asks the one of the global object, which is.
    const isFixed = Object.getOwnPropertyDescriptor(target, name)?.configurable === false;
    if (typeof real !== "function" || isFixed) return;
    replace(target, name, guarded(real as Callable, `${owner}${name}`, instead));
  };

  const scope = globalThis as unknown as Target;
  replace(scope, "Date", guardedDate());
  for (const name of ["setTimeout", "setInterval", "setImmediate"]) wire(scope, "", name, TIMERS);
  wire(performance as unknown as Target, "performance.", "now", CLOCK);
  wire(Math as unknown as Target, "Math.", "random", RANDOM);
  for (const name of ["getRandomValues", "randomUUID"]) {
    wire(crypto as unknown as Target, "crypto.", name, RANDOM);
  }
  wire(AbortSignal as unknown as Target, "AbortSignal.", "timeout", TIMERS);
  const node = builtins();
  for (const { target, owner, names, instead } of node.modules) {
    for (const name of Object.keys(target).filter((key) => names.test(key))) {
      wire(target, owner, name, instead);
    }
  }
  node.sync();
  return () => {
    for (const step of undo.reverse()) step();
    node.sync();
  };
}

/** A proxy, since timers carry properties of their own. */
function guarded(real: Callable, call: string, instead: string): Callable {
  return new Proxy(real, {
    apply(target, self, args) {
      trip(`${call}()`, instead);
      return Reflect.apply(target, self, args) as unknown;
    },
  });
}

/** A date from a number is nobody's clock. */
function guardedDate(): DateConstructor {
  const now = guarded(Date.now, "Date.now", CLOCK);
  return new Proxy(Date, {
    apply(target, self, args) {
      trip("Date()", CLOCK);
      return Reflect.apply(target, self, args) as unknown;
    },
    construct(target, args, made) {
      if (args.length === 0) trip("new Date()", CLOCK);
      return Reflect.construct(target, args, made) as Date;
    },
    get: (target, name): unknown => (name === "now" ? now : Reflect.get(target, name)),
  });
}

interface Module {
  readonly target: Target;
  readonly owner: string;
  readonly names: RegExp;
  readonly instead: string;
}

/** Modules of Node, and what carries a change of them to those who imported a name from one. */
function builtins(): { readonly modules: readonly Module[]; sync(): void } {
  const { process: node } = globalThis as { readonly process?: NodeJS.Process };
  const loader = node?.getBuiltinModule("node:module");
  if (node === undefined || loader === undefined) return { modules: [], sync: () => undefined };
  const module = (id: string, names: RegExp, instead: string): Module => ({
    target: node.getBuiltinModule(`node:${id}`) as Target,
    owner: `${id}.`,
    names,
    instead,
  });
  return {
    modules: [
      module("crypto", /^(random|getRandom)/, RANDOM),
      module("timers", /^set/, TIMERS),
      module("timers/promises", /^set/, TIMERS),
      module("os", /^uptime$/, CLOCK),
      module("process", /^(hrtime|uptime)$/, CLOCK),
    ],
    sync: () => loader.syncBuiltinESMExports(),
  };
}
