/** The requests that we send, and how their answers are read. */
import { ZookeeperReplyError } from "./errors.js";
import { type JuteReader, type JuteWriter } from "./jute.js";

/** What a server keeps of one node. */
export interface Stat {
  /** Id of the transaction that created the node: ordered over all changes of the ensemble. */
  readonly czxid: bigint;
  /** Id of the transaction that changed its data last. */
  readonly mzxid: bigint;
  /** Number of changes of its data. */
  readonly version: number;
  /** Session that an ephemeral node ends with; 0 for any other. */
  readonly ephemeralOwner: bigint;
  readonly children: number;
}

/** What becomes of a node: `container` goes some time after its last child has gone. */
export type CreateMode = "persistent" | "ephemeral-sequential" | "container";

/** Who may do what with a new node: everybody, or those with the credentials of its creator. */
export type Access = "open" | "creator";

/** One change of a transaction. */
export type Change =
  | {
      readonly kind: "create";
      readonly path: string;
      readonly data: Uint8Array;
      readonly mode: CreateMode;
      readonly access: Access;
    }
  | { readonly kind: "delete"; readonly path: string; readonly version: number }
  | {
      readonly kind: "set";
      readonly path: string;
      readonly data: Uint8Array;
      readonly version: number;
    }
  | { readonly kind: "check"; readonly path: string; readonly version: number };

/** A node that was made. In a transaction some servers leave out all but its path. */
export interface Created {
  readonly path: string;
  readonly stat?: Stat;
}

/** What one change of a transaction came to: of a creation the node. */
export type Changed = Created | undefined;

/** One request: its code, its body, and how to read the answer. */
export interface Operation<R> {
  readonly code: number;
  write(to: JuteWriter): void;
  read(from: JuteReader): R;
}

/** Takes the credentials of the session. Its answer has an id of its own. */
export const AUTH_CODE = 100;
export const PING_CODE = 11;
export const CLOSE_CODE = -11;

const CODES = {
  create: 1,
  delete: 2,
  getData: 4,
  setData: 5,
  getChildren: 8,
  sync: 9,
  check: 13,
  multi: 14,
  create2: 15,
  createContainer: 19,
} as const;

const FLAGS: Readonly<Record<CreateMode, number>> = {
  persistent: 0,
  "ephemeral-sequential": 3,
  container: 4,
};

const ALL_PERMISSIONS = 31;

/** A node's data. With `watch` the server tells once when the node changes or goes. */
export function getData(
  path: string,
  watch: boolean,
): Operation<{ readonly data: Buffer; readonly stat: Stat }> {
  return {
    code: CODES.getData,
    write: (to) => void to.text(path).bool(watch),
    read: (from) => ({ data: from.buffer(), stat: readStat(from) }),
  };
}

/** Names of a node's children, in no order. */
export function getChildren(path: string): Operation<readonly string[]> {
  return {
    code: CODES.getChildren,
    write: (to) => void to.text(path).bool(false),
    read: (from) => from.texts(),
  };
}

/** Answered once the asked server has what the leader had committed when it heard of it. */
export function sync(path: string): Operation<void> {
  return { code: CODES.sync, write: (to) => void to.text(path), read: () => undefined };
}

/** One change by itself. */
export function change(wanted: Change): Operation<Changed> {
  return {
    code: codeOf(wanted),
    write: (to) => writeChange(to, wanted),
    read: (from) => readChanged(from, codeOf(wanted)),
  };
}

/**
 * All changes or none.
 *
 * @throws ZookeeperReplyError, on reading, with the place of the change that was refused.
 */
export function multi(changes: readonly Change[]): Operation<readonly Changed[]> {
  return {
    code: CODES.multi,
    write: (to) => {
      for (const wanted of changes) {
        to.int(codeOf(wanted)).bool(false).int(-1);
        writeChange(to, wanted);
      }
      to.int(-1).bool(true).int(-1);
    },
    read: readMulti,
  };
}

function codeOf(wanted: Change): number {
  switch (wanted.kind) {
    case "create":
      return wanted.mode === "container" ? CODES.createContainer : CODES.create2;
    case "delete":
      return CODES.delete;
    case "set":
      return CODES.setData;
    case "check":
      return CODES.check;
  }
}

function writeChange(to: JuteWriter, wanted: Change): void {
  to.text(wanted.path);
  if (wanted.kind === "create") {
    const [scheme, id] = wanted.access === "open" ? ["world", "anyone"] : ["auth", ""];
    to.buffer(wanted.data).int(1).int(ALL_PERMISSIONS).text(scheme).text(id);
    to.int(FLAGS[wanted.mode]);
    return;
  }
  if (wanted.kind === "set") to.buffer(wanted.data);
  to.int(wanted.version);
}

function readChanged(from: JuteReader, code: number): Changed {
  switch (code) {
    case CODES.create:
      return { path: from.text() };
    case CODES.create2:
    case CODES.createContainer:
      return { path: from.text(), stat: readStat(from) };
    case CODES.setData:
      readStat(from);
      return undefined;
    default:
      return undefined;
  }
}

function readMulti(from: JuteReader): readonly Changed[] {
  const done: Changed[] = [];
  let failed: ZookeeperReplyError | undefined;
  for (let place = 0; ; place++) {
    const code = from.int();
    const isLast = from.bool();
    from.int();
    if (isLast) break;
    if (code !== -1) {
      done.push(readChanged(from, code));
      continue;
    }
    // The others of a refused transaction carry 0 (before it) or "runtime inconsistency" (after).
    const error = from.int();
    if (error !== 0 && failed === undefined) failed = new ZookeeperReplyError(error, place);
  }
  if (failed !== undefined) throw failed;
  return done;
}

function readStat(from: JuteReader): Stat {
  const czxid = from.long();
  const mzxid = from.long();
  from.long();
  from.long();
  const version = from.int();
  from.int();
  from.int();
  const ephemeralOwner = from.long();
  from.int();
  const children = from.int();
  from.long();
  return { czxid, mzxid, version, ephemeralOwner, children };
}
