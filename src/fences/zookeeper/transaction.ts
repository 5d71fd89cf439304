/** What the work of a read or write is given: reads at once, changes noted for the one step. */
import { ArgumentRangeError, ArgumentTypeError } from "../../core/errors.js";
import type { Bounds, Change, FenceSession } from "./client.js";

/** A node's data, and the number of its changes. */
export interface ZookeeperValue {
  readonly data: Buffer;
  readonly version: number;
}

/** What the work of a read is given. Paths are below the chroot. */
export interface ZookeeperReadTx {
  /** The node, or undefined where there is none. */
  get(path: string): Promise<ZookeeperValue | undefined>;
  /** Names of the node's children, or undefined where there is no node. */
  children(path: string): Promise<readonly string[] | undefined>;
}

/**
 * What the work of a write is given. Reads show what is there before the write; changes are noted,
 * and made together with the check of the mark when the work has ended. A `version` is that of an
 * earlier `get`; without it, any.
 */
export interface ZookeeperTx extends ZookeeperReadTx {
  /** Makes a node, whose parent must be there. */
  create(path: string, data?: string | Uint8Array): void;
  set(path: string, data: string | Uint8Array, version?: number): void;
  delete(path: string, version?: number): void;
  /** The node must be there, with this version. */
  check(path: string, version?: number): void;
}

const ANY = -1;

/** Notes the changes of one step. */
export class Notebook {
  readonly tx: ZookeeperTx;
  readonly changes: Change[] = [];
  #reads = 0;
  #ended = false;

  constructor(session: FenceSession, chroot: string, call: Bounds) {
    const open = (path: string): string => {
      if (this.#ended) throw new TypeError("this read or write has ended");
      return chroot + checkPath(path);
    };
    const read = (path: string): string => {
      this.#reads += 1;
      return open(path);
    };
    const note = (change: Change): void => void this.changes.push(change);
    this.tx = {
      get: async (path) => {
        const node = await session.node(read(path), call);
        return node && { data: node.data, version: node.stat.version };
      },
      children: async (path) => session.children(read(path), call, false),
      create: (path, data = "") =>
        note({ kind: "create", path: open(path), data: bytes(data), mode: "persistent" }),
      set: (path, data, version) =>
        note({ kind: "set", path: open(path), data: bytes(data), version: checkVersion(version) }),
      delete: (path, version) =>
        note({ kind: "delete", path: open(path), version: checkVersion(version) }),
      check: (path, version) =>
        note({ kind: "check", path: open(path), version: checkVersion(version) }),
    };
  }

  /** Whether anything was read. */
  get hasRead(): boolean {
    return this.#reads > 0;
  }

  end(): void {
    this.#ended = true;
  }
}

function bytes(data: unknown): Uint8Array {
  if (typeof data === "string") return Buffer.from(data, "utf8");
  if (data instanceof Uint8Array) return data;
  throw new ArgumentTypeError("data", data, "text or bytes");
}

function checkPath(path: unknown): string {
  if (typeof path === "string" && /^(\/[^/\0]+)+$/.test(path)) return path;
  throw new ArgumentTypeError("path", path, 'the path of a node, such as "/accounts/7"');
}

function checkVersion(version: unknown): number {
  if (version === undefined) return ANY;
  if (typeof version === "number" && Number.isInteger(version) && version >= 0) return version;
  throw new ArgumentRangeError("version", version, "a whole number, 0 or more");
}
