/** Which store the command talks to. */
import { existsSync, mkdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { GuaranteeError, UnavailableError } from "../core/errors.js";
import type { connect } from "../connect.js";
import type * as schedules from "../schedule/open.js";
import type { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import { splitStoreUrl } from "../store-url.js";
import { UsageError } from "./arguments.js";
import { say } from "./output.js";

/** A store by its URL. */
export interface StoreChoice {
  /** With an absolute path, so that it means the same in another folder. */
  readonly url: string;
  /** Folder to make first: only for the store that nobody named. */
  readonly folder?: string;
}

/** The store of `--store`, else of `TENURE_STORE`, else a file in the user's state folder. */
export function chooseStore(flag: string | undefined): StoreChoice {
  const named = flag ?? process.env["TENURE_STORE"];
  if (named !== undefined && (flag !== undefined || named !== "")) return { url: absolute(named) };
  const folder = path.join(stateFolder(), "tenure");
  return { url: `sqlite:${path.join(folder, "tenure.db")}`, folder };
}

/** `XDG_STATE_HOME` counts only when it is absolute: so says the XDG base directory rule. */
function stateFolder(): string {
  const state = process.env["XDG_STATE_HOME"] ?? "";
  return path.isAbsolute(state) ? state : path.join(homedir(), ".local", "state");
}

function absolute(named: string): string {
  // As in every URL, in letters of either case.
  const url = named.replace(/^[a-z0-9+]+:/i, (scheme) => scheme.toLowerCase());
  const file = /^sqlite:(?!\/|:memory:|file:)(.+)$/s.exec(url)?.[1];
  return file === undefined ? url : `sqlite:${path.resolve(file)}`;
}

/** What a command needs of the store. */
export interface StoreNeeds {
  readonly purpose?: "correctness" | "efficiency";
}

/**
 * A tenure on the chosen store.
 *
 * @throws UnavailableError when the store cannot be opened.
 * @throws TypeError or RangeError when its URL is wrong.
 */
export async function openStore(
  choice: StoreChoice,
  { purpose = "correctness" }: StoreNeeds = {},
): Promise<Tenure<FencingToken | undefined>> {
  const { connect } = await prepared(choice);
  return connect(choice.url, { purpose, ...LEAVING }).catch(inTermsOfFlags);
}

/** As {@link openStore}, on a store whose leases have tokens for certain. */
export async function openForTokens(choice: StoreChoice): Promise<Tenure<FencingToken>> {
  const { connect } = await prepared(choice);
  return connect(choice.url, LEAVING).catch(inTermsOfFlags);
}

/** The library advises an option of `connect`, which the command has by another name. */
function inTermsOfFlags(error: unknown): never {
  if (!(error instanceof GuaranteeError)) throw error;
  const fact = /^(.*); say purpose: "efficiency"/s.exec(error.message)?.[1];
  if (fact === undefined) throw error;
  const advice = "use another store; or, if a double run only wastes work,";
  const text = `${fact}; ${advice} tenure run NAME --on-unavailable proceed`;
  throw new GuaranteeError(text, { backend: error.backend! });
}

/**
 * What the command leases belongs to a script, or to a child, that goes on when this process is
 * killed: only its TTL, or a release, ends it.
 */
const LEAVING = { endWithProcess: false };

/** To look at leases takes no token: one can see what `run --on-unavailable proceed` holds. */
export const LOOKING: StoreNeeds = { purpose: "efficiency" };

/** Opens schedules: loaded when it is used. */
type Schedules = Pick<typeof schedules, "schedule" | "isoTime">;

/**
 * What opens schedules on the chosen store.
 *
 * @throws UsageError for a store that has none.
 */
export async function schedulesOn({ url, folder }: StoreChoice): Promise<Schedules> {
  if (!/^(sqlite|postgres|postgresql):/.test(url)) {
    const scheme = url.slice(0, url.indexOf(":") + 1);
    throw new UsageError(
      `a schedule is kept in SQLite or Postgres, not in ${JSON.stringify(scheme)}`,
      "--store sqlite:PATH or --store postgres://…",
    );
  }
  if (folder !== undefined) makeFolder(folder);
  return import("../schedule/open.js");
}

/** Loaded when it is used, like what it opens. */
type Connect = typeof connect;

async function prepared({ url, folder }: StoreChoice): Promise<{ readonly connect: Connect }> {
  if (url.startsWith("memory:")) {
    throw new UsageError(
      "--store memory: lives in one process, so it keeps nobody out of another",
      "for the processes of this machine: --store sqlite:PATH",
    );
  }
  // What lives in one process keeps nobody out of another, and every command is one.
  splitStoreUrl(url, "processes");
  if (folder !== undefined) makeFolder(folder);
  return import("../connect.js");
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const why = (cause as Error).message;
    throw new UnavailableError(
      `the state folder ${folder} cannot be made (${why}); ` +
        `name a store with --store sqlite:PATH or TENURE_STORE`,
      { cause, backend: "sqlite", retryable: false },
    );
  }
}

/**
 * As {@link withStore}, for a verb that only looks: a SQLite file that does not exist is not made.
 * Nothing is held in it, and `nothing` answers so.
 */
export async function withStoreAsItIs(
  { store, json }: { readonly store?: string | undefined; readonly json?: boolean | undefined },
  nothing: () => number,
  work: (tenure: Tenure<FencingToken | undefined>) => Promise<number>,
  needs?: StoreNeeds,
): Promise<number> {
  const choice = chooseStore(store);
  const missing = missingFile(choice);
  if (missing === undefined) return withStore(store, work, needs);
  // Nobody is surprised that the store that nobody named is made with the first lease.
  if (choice.folder === undefined && json !== true) say(`there is no store file ${missing} yet`);
  return nothing();
}

/** The SQLite file that opening would make; undefined where there is one, or it is no such file. */
export function missingFile({ url, folder }: StoreChoice): string | undefined {
  const file = /^sqlite:(\/.+)$/s.exec(url)?.[1];
  if (file === undefined || file.startsWith("//")) return undefined;
  try {
    statSync(file);
    return undefined;
  } catch (error) {
    // Anything else is for SQLite to tell.
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") return undefined;
  }
  const isPlace = folder !== undefined || existsSync(path.dirname(file));
  return isPlace ? file : undefined;
}

/** Opens the store, does the work and closes it again. */
async function withStore(
  flag: string | undefined,
  work: (tenure: Tenure<FencingToken | undefined>) => Promise<number>,
  needs?: StoreNeeds,
): Promise<number> {
  const tenure = await openStore(chooseStore(flag), needs);
  try {
    return await work(tenure);
  } finally {
    await tenure.close().catch(() => undefined);
  }
}
