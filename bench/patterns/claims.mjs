/** Keys that nobody has claimed, claimed one after the other; and one that somebody has. */
import { claims as openClaims } from "tenure/claims";
import { beside } from "./stores.mjs";

const TABLE = `CREATE TABLE bare_claim
  (name VARCHAR(512) PRIMARY KEY, owner VARCHAR(512) NOT NULL, token BIGINT NOT NULL)`;
const INSERT = `INSERT INTO bare_claim (name, owner, token) VALUES ($1, $2, $3)
  ON CONFLICT DO NOTHING RETURNING token`;

export async function claims(isQuick) {
  await beside("claim", isQuick, [TABLE], async ({ url, run }) => {
    const c = await openClaims(url);
    const insert = async (n) => {
      const rows = await run(INSERT, [`key ${n}`, "a", n]);
      if (rows.length !== 1) throw new Error("not claimed");
    };
    await run(INSERT, ["key taken", "a", 0]);
    await c.claim("taken", "a");
    const must = (is) => {
      if (!is) throw new Error("not as it must be");
    };
    return {
      turns: {
        "one INSERT … ON CONFLICT DO NOTHING": insert,
        "**`claim(key, owner)`**": async (n) => must(await c.claim(`key ${n}`, "a")),
        "**`claim(key, owner, { lease })`**": async (n) =>
          must(await c.claim(`key ${n}`, "a", { lease: "1m" })),
        "the INSERT, of a key that is taken": async () =>
          must((await run(INSERT, ["key taken", "b", 1])).length === 0),
        "**`claim`, of a key that is taken**": async () => must(!(await c.claim("taken", "b"))),
      },
      close: () => c.close(),
    };
  });
}
