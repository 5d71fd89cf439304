import { utf8Bytes } from "../../core/names.js";
import { must } from "../broken-promise.js";
import { always, whereStoreExpires, type ConformanceCase } from "../case.js";
import { describe } from "../client.js";
import type { Trial } from "../trial.js";

/** Texts that some store trims, folds, escapes, matches as a pattern or takes for a path. */
const PLAIN: readonly string[] = [
  "a", "A", "ab", "a/b", "a//b", "a/", "a-0000000001", "a b", "a ", " a", "a:b", "a%", "a_", "a*",
  "a?", "a[b]", "a\\", "a'b", 'a"b', "{a}b", "a.b", "..", "a\nb", "\u00e9", "e\u0301", "ß", "ss",
  "😀", "\uffff", "__proto__", "constructor", "NULL", "0", "00",
];

/** Names are bytes: all of them work, and no two are the same lock. */
export const namesCases: readonly ConformanceCase[] = [
  {
    id: "names-independent",
    title: "names are told apart byte by byte",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      for (const name of allNames(trial)) {
        const answer = await a.acquire(name);
        must("grant" in answer, "names are independent", `${JSON.stringify(name)} is held`);
      }
      for (const name of allNames(trial)) await b.refused(name);
    },
  },
  {
    id: "names-listed",
    title: "list shows the live leases of a prefix, and no others, whatever its characters",
    applies: always,
    async run(trial) {
      const client = await trial.client();
      const names = allNames(trial);
      for (const name of names) await client.take(name);
      const released = await client.take(trial.name("a released"));
      await client.free(released);
      for (const prefix of [...names, trial.name("")]) {
        const listed = JSON.stringify((await client.names(prefix)).toSorted());
        const wanted = JSON.stringify(names.filter((name) => name.startsWith(prefix)).toSorted());
        const seen = `${JSON.stringify(prefix)} gave ${listed}, wanted ${wanted}`;
        must(listed === wanted, "list", seen);
      }
    },
  },
  {
    id: "inspect-shows",
    title: "inspect and list show holder, token and info of a live lease, null of a free name",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      must((await b.inspect(trial.name())) === null, "inspect", "a name never held shows a lease");
      const holderInfo = { host: "hôst \"1\"", pid: 4_000_000_000, cmd: "a\nb", share: 0.5 };
      const grant = await a.take(trial.name(), { holderInfo });
      const shown = await b.inspect(trial.name());
      must(shown !== null, "inspect", "a live lease is not shown");
      const listed = [];
      for await (const one of b.backend.list(trial.name(), b.call())) listed.push(one);
      must(listed.length === 1 && listed[0]?.name === trial.name(), "list", "not the one lease");
      for (const held of [shown, listed[0]]) {
        const seen = describe(held);
        must(held.holder === undefined || held.holder === grant.holder, "inspect: holder", seen);
        const exact = trial.manifest.tokens === "none" || held.token === grant.token;
        must(exact, "inspect: token", seen);
        const { holderInfo: info } = held;
        const keys = Object.keys(holderInfo) as (keyof typeof holderInfo)[];
        const same = info === undefined || keys.every((key) => info[key] === holderInfo[key]);
        must(same, "inspect: holderInfo comes back as it was given", seen);
      }
      await a.free(grant);
      must((await b.inspect(trial.name())) === null, "inspect", "a released lease is shown");
    },
  },
  {
    id: "inspect-expired",
    title: "an expired lease is neither shown nor listed",
    applies: whereStoreExpires,
    async run(trial) {
      const client = await trial.client();
      await client.take(trial.name(), { ttlMs: trial.shortTtlMs });
      await trial.expire(trial.shortTtlMs);
      const shown = await client.inspect(trial.name());
      must(shown === null, "inspect", `an expired lease is shown: ${shown && describe(shown)}`);
      must((await client.names(trial.name(""))).length === 0, "list", "an expired lease is listed");
    },
  },
];

function allNames(trial: Trial): readonly string[] {
  const names = PLAIN.map((text) => trial.name(text));
  // The longest name, twice with another last byte: a hash or a cut-off would make them one.
  const room = 511 - utf8Bytes(trial.name(""));
  const long = trial.name("é".repeat(room / 2) + (room % 2 === 0 ? "" : "x"));
  return [...names, `${long}1`, `${long}2`];
}
