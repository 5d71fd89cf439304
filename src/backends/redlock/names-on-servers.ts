import type { Call } from "../../core/backend.js";
import { answersOf, noMajority } from "./ballot.js";
import type { Reply } from "./client.js";
import type { Member, Members } from "./members.js";

/** Keys that a server looks at in one step. */
const SCAN_COUNT = "1000";
/** Names that are looked at together. */
const PAGE = 100;

/**
 * Names of locks that any server has a key of, in pages. Each server walks through all of its keys.
 *
 * @param skip characters of a key before the name begins
 * @throws UnavailableError when a majority does not answer.
 */
export async function namesOn(
  members: Members,
  keyPrefix: string,
  skip: number,
  call: Call,
): Promise<readonly (readonly string[])[]> {
  const found = await members.ask<readonly string[], ReadonlySet<string>>(
    (member) => scan(member, keyPrefix),
    (votes, isFinal) => {
      if (!isFinal) return undefined;
      const answers = answersOf(votes);
      if (answers.length < members.quorum) throw noMajority("list leases", votes, 0);
      return new Set(answers.flat());
    },
    call,
  );
  const names = [...found].map((key) => key.slice(skip));
  const pages: string[][] = [];
  for (let from = 0; from < names.length; from += PAGE) pages.push(names.slice(from, from + PAGE));
  return pages;
}

async function scan(member: Member, keyPrefix: string): Promise<readonly string[]> {
  const pattern = `${keyPrefix.replaceAll(/[\\*?[\]]/g, "\\$&")}*`;
  const keys: string[] = [];
  let cursor = "0";
  do {
    const args = ["SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT];
    const [next, page] = (await member.send("list leases", args)) as readonly [Reply, Reply];
    cursor = String(next);
    if (Array.isArray(page)) keys.push(...(page as readonly Reply[]).map(String));
  } while (cursor !== "0");
  return keys;
}
