import type { Mark } from "../../src/fences/decide.js";
import { fileFence } from "../../src/fences/file/open.js";
import { sqliteFence } from "../../src/fences/sqlite/open.js";
import { bearer } from "./bearers.js";

/** A number, or a long text, under a fence. */
export interface Counter {
  get(): Promise<number>;
  text(): Promise<string>;
  add(amount: number, meanwhile?: () => void): Promise<void>;
  /** Replaces the value by a large one that shows when a part of it is missing. */
  fill(round: number): Promise<void>;
}

/** Counters of one store, the same for each kind of fence. */
export interface Counters {
  /** Makes what the store needs once. */
  prepare(): Promise<void>;
  arm(resource: string, token: number, holder: string): Promise<Counter>;
  mark(resource: string): Promise<Mark | null>;
  close(): Promise<void>;
}

interface Cell {
  text(): string | undefined;
  put(text: string): void;
}

interface CellHandle {
  read<R>(work: (cell: Pick<Cell, "text">) => R): Promise<R>;
  write(work: (cell: Cell) => void): Promise<unknown>;
}

export function openCounters(kind: "file" | "sqlite", path: string, busyMs = 10_000): Counters {
  return kind === "file" ? fileCounters(path, busyMs) : sqliteCounters(path, busyMs);
}

function fileCounters(path: string, busyMs: number): Counters {
  const fence = fileFence(path, { busyMs });
  return {
    prepare: async () => undefined,
    arm: async (resource, token, holder) => {
      const handle = await fence.arm(bearer(token, { holder }), resource);
      return counter({
        read: (work) => handle.read((tx) => work(tx)),
        write: (work) => handle.write((tx) => work(tx)),
      });
    },
    mark: (resource) => fence.mark(resource),
    close: async () => undefined,
  };
}

function sqliteCounters(path: string, busyMs: number): Counters {
  const fence = sqliteFence(path, { busyMs });
  const create = "CREATE TABLE IF NOT EXISTS cell (id TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID";
  return {
    prepare: async () => void (await fence.bypass("set-up", (tx) => tx.run(create))),
    arm: async (resource, token, holder) => {
      await fence.bypass("set-up", (tx) => tx.run(create));
      const handle = await fence.arm(bearer(token, { holder }), resource);
      const text = (row: { text?: unknown } | undefined): string | undefined =>
        row === undefined ? undefined : String(row.text);
      return counter({
        read: (work) =>
          handle.read((tx) =>
            work({ text: () => text(tx.get("SELECT text FROM cell WHERE id = ?", resource)) }),
          ),
        write: (work) =>
          handle.write((tx) =>
            work({
              text: () => text(tx.get("SELECT text FROM cell WHERE id = ?", resource)),
              put: (next) => void tx.run("REPLACE INTO cell VALUES (?, ?)", resource, next),
            }),
          ),
      });
    },
    mark: (resource) => fence.mark(resource),
    close: () => fence.close(),
  };
}

function counter(handle: CellHandle): Counter {
  return {
    get: () => handle.read((cell) => Number(cell.text() ?? 0)),
    text: () => handle.read((cell) => cell.text() ?? ""),
    add: async (amount, meanwhile) => {
      await handle.write((cell) => {
        cell.put(String(Number(cell.text() ?? 0) + amount));
        meanwhile?.();
      });
    },
    fill: async (round) => {
      await handle.write((cell) => cell.put(`${round} `.repeat(50_000)));
    },
  };
}
