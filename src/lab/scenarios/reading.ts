/** Reading a history: what a scenario asks of it when it checks what came. */
import type { EventOf } from "../history.js";
import { must, type ScenarioResult } from "./scenario.js";

type Granted = EventOf<"grant">;

/** All grants of a name, in the store's order. */
export function grantsOf(result: ScenarioResult, key: string): readonly Granted[] {
  return result.of("grant").filter((grant) => grant.key === key);
}

/** A grant of a name to a client, from 0. @throws Error when there were not so many. */
export function grantOf(
  result: ScenarioResult,
  key: string,
  client: string,
  nth = 0,
): Granted {
  const found = grantsOf(result, key).filter((grant) => grant.client === client)[nth];
  must(found !== undefined, `${client} was not granted ${key} ${nth + 1} times`);
  return found!;
}

/** The end of a grant. @throws Error when it did not end. */
export function endOf(result: ScenarioResult, grant: Granted): EventOf<"end"> {
  const found = result
    .of("end")
    .find(({ key, token, atMs }) =>
      key === grant.key && token === grant.token && atMs >= grant.atMs);
  must(found !== undefined, `the lease ${grant.key} of ${grant.client} did not end in the store`);
  return found!;
}

/** When the store took the last renewal of a grant, or granted it. */
export function lastExtendedMs(result: ScenarioResult, grant: Granted): number {
  const own = result
    .of("extend")
    .filter(({ key, token }) => key === grant.key && token === grant.token);
  return own.at(-1)?.atMs ?? grant.atMs;
}

/** How often its client looked at a grant and found it held, or in doubt. */
export function looksAt(
  result: ScenarioResult,
  grant: Granted,
): readonly EventOf<"believes" | "doubts">[] {
  return result.of("believes", "doubts").filter((look) => isOf(look, grant));
}

/** When its client stopped believing in a grant. @throws Error when it never did. */
export function stopOf(result: ScenarioResult, grant: Granted): EventOf<"stops"> {
  const found = result.of("stops").find((stop) => isOf(stop, grant));
  must(found !== undefined, `${grant.client} never stopped believing in ${grant.key}`);
  return found!;
}

/** The first fault of a kind at a target. @throws Error when there was none. */
export function faultOf(result: ScenarioResult, what: string, target: string): EventOf<"fault"> {
  const found = result.of("fault").find((fault) => fault.what === what && fault.target === target);
  must(found !== undefined, `no ${what} of ${target} happened`);
  return found!;
}

/** What a client noted in a few words. */
export function noted(result: ScenarioResult, client: string): readonly string[] {
  return result
    .of("note")
    .filter((note) => note.client === client)
    .map(({ text }) => text);
}

/** @throws Error when it came more than some time after, or before. */
export function mustFollow(ms: number, afterMs: number, withinMs: number, what: string): void {
  const lateMs = Math.round(ms - afterMs);
  const isInTime = lateMs >= 0 && lateMs <= withinMs;
  must(isInTime, `${what} came ${lateMs} ms after, not within ${withinMs} ms`);
}

function isOf(
  { key, client, token }: { readonly key: string; readonly client: string; readonly token: string },
  grant: Granted,
): boolean {
  return key === grant.key && client === grant.client && token === grant.token;
}
