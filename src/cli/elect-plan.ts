/** What `tenure elect` was asked to do. */
import type { HolderInfo } from "../core/backend.js";
import { nameOperand, parse, STORE_FLAGS, UsageError } from "./arguments.js";
import { COMMAND_FLAGS, parseOwn, readCommand, splitCommand } from "./command-plan.js";
import type { CommandPlan } from "./command-plan.js";
import type { ReadyPlaces } from "./readiness.js";

/** A candidate with its command. */
export interface CandidatePlan extends CommandPlan {
  readonly kind: "candidate";
  readonly info: HolderInfo;
  readonly ready: ReadyPlaces;
}

/** An observer. */
interface ObserverPlan {
  readonly kind: "observer";
  readonly name: string;
  readonly store: string | undefined;
  readonly json: boolean;
}

const FLAGS = {
  ...STORE_FLAGS,
  ...COMMAND_FLAGS,
  info: { type: "string" },
  observe: { type: "boolean" },
  "ready-file": { type: "string" },
  "ready-port": { type: "string" },
} as const;

const OF_CANDIDATES = ["ttl", "grace", "shell", "info", "ready-file", "ready-port"] as const;

/**
 * The plan of a command line.
 *
 * @throws UsageError, TypeError or RangeError naming flag and value.
 */
export function readElectPlan(argv: readonly string[]): CandidatePlan | ObserverPlan {
  const split = splitCommand(argv);
  const { own, words } = split;
  // One who only looks has forgotten no dashes.
  const looks = own.includes("--observe");
  const { values, operands } = looks ? parse(own, FLAGS) : parseOwn(split, FLAGS);
  if (values.observe === true) {
    const usage = "tenure elect NAME --observe [--store URL] [--json]";
    if (words !== undefined) throw new UsageError("--observe takes no command", usage);
    const extra = OF_CANDIDATES.find((flag) => values[flag] !== undefined);
    if (extra !== undefined) throw new UsageError(`--observe takes no --${extra}`, usage);
    const { store, json = false } = values;
    return { kind: "observer", name: nameOperand(operands, usage), store, json };
  }
  return {
    kind: "candidate",
    ...readCommand("elect", values, operands, own, words),
    info: readInfo(values.info),
    ready: { file: readPath(values["ready-file"]), port: readPort(values["ready-port"]) },
  };
}

/** An object of JSON, or a text under the key `info`. */
function readInfo(text: string | undefined): HolderInfo {
  if (text === undefined) return {};
  if (!text.trimStart().startsWith("{")) return { info: text };
  const hint = 'such as --info \'{"zone":"north","port":8080}\' or --info north';
  let read: Readonly<Record<string, unknown>>;
  try {
    read = JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch (error) {
    throw new UsageError(`--info is no JSON: ${(error as Error).message}`, hint);
  }
  for (const [key, value] of Object.entries(read)) {
    if (typeof value === "string" || Number.isFinite(value)) continue;
    throw new UsageError(`--info has at ${JSON.stringify(key)} no text and no number`, hint);
  }
  return read as HolderInfo;
}

function readPath(text: string | undefined): string | undefined {
  if (text === "") throw new UsageError('--ready-file needs a path, got ""');
  return text;
}

function readPort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[0-9]{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  const hint = "0 takes a free port and says which";
  throw new UsageError(`--ready-port needs a port, got ${JSON.stringify(text)}`, hint);
}
