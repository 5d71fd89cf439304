import { parseDuration, type Duration } from "../../core/duration.js";
import { checkName } from "../../core/names.js";
import { checkKnown, checkObject } from "../../core/options.js";
import type { Runtime } from "../../core/runtime.js";
import type { Client, Machine } from "./client.js";

/** What the caller may choose. */
export interface DynamodbSettings {
  /**
   * Take-over by wall clocks: a contender need not watch a dead holder's record for a TTL. It takes
   * the record over once its own wall clock is `maxSkew` past the end that the holder wrote, by the
   * holder's wall clock.
   *
   * Not safe unless the wall clocks of **all** machines that use the table are within `maxSkew` of
   * each other at all times; a clock that is further ahead takes names from living holders, which
   * then only a fence stops. Records of holders without this option are watched as ever. Default:
   * off, no clock is compared.
   */
  readonly wallClock?: { readonly maxSkew: Duration };
  /** Id of the store, where two stores are to count as one. Default: the one kept in the table. */
  readonly storeId?: string;
}

/** Settings of `dynamodbBackend`. */
export interface DynamodbBackendOptions extends DynamodbSettings {
  readonly client: Client;
  /** Carries renewals, so that a busy client does not starve them. Default: `client`. */
  readonly renewals?: Client;
  readonly table: string;
  readonly runtime: Pick<Runtime, "clock" | "random" | "events" | "timers">;
  readonly machine: () => Promise<Machine>;
  /** Ends what was opened for this backend. */
  readonly close?: () => void;
}

/** Checked settings. */
export interface CheckedSettings {
  readonly maxSkewMs: number | undefined;
  readonly storeId: string | undefined;
}

/** @throws TypeError or RangeError naming the option and its value. */
export function checkSettings({ wallClock, storeId }: DynamodbSettings): CheckedSettings {
  const id = storeId === undefined ? undefined : checkName(storeId, "storeId");
  if (wallClock === undefined) return { maxSkewMs: undefined, storeId: id };
  checkObject(wallClock, "wallClock");
  checkKnown(wallClock, ["maxSkew"]);
  return { maxSkewMs: parseDuration(wallClock.maxSkew, "wallClock.maxSkew"), storeId: id };
}
