// A member of a group. For each partition that it owns it adds to a counter, by reading it and
// writing what it read and one more, through a fence; and says what was acknowledged.
import { connect } from "tenure";
import { partitions } from "tenure/partitions";

const { store, ledger, group: name, count, ttl, everyMs } = JSON.parse(process.argv[2]);
const counters = await openLedger(ledger);
const tenure = await connect(store);
const group = await partitions(tenure, name, {
  count,
  ttl,
  drain: "10s",
  // A store that is slow on a busy machine, or was frozen with one of its writers.
  onError: (error) => say({ error: `${error.name}: ${error.message}` }),
});
process.once("SIGTERM", () => void group.close());
say({ member: group.member });

await group.run(async (owned) => {
  const { partition, token, revoked } = owned;
  let handle;
  while (!revoked.aborted) {
    try {
      handle ??= await counters.arm(owned, partition);
      const base = await handle.read();
      await pause(everyMs * Math.random(), revoked);
      await handle.add(base, token);
      say({ partition, value: base + 1 });
      await pause(everyMs * Math.random(), revoked);
    } catch (error) {
      say({ refused: error.name, partition });
      // What was lost, or taken over, is over; what failed is tried again.
      if (error.family === "refused") return;
      await pause(everyMs, revoked);
    }
  }
});
await tenure.close();
await counters.close();

async function openLedger({ sqlite, postgres }) {
  if (sqlite !== undefined) {
    const { sqliteFence } = await import("tenure/fences/sqlite");
    const fence = sqliteFence(sqlite);
    return {
      close: () => fence.close(),
      async arm(owned, partition) {
        const handle = await fence.arm(bearer(owned), `counter/${partition}`);
        const n = String(partition);
        return {
          read: () =>
            handle.read((tx) => Number(tx.get("SELECT value FROM counter WHERE n = ?", n).value)),
          add: (base, token) =>
            handle.write((tx) => {
              tx.run("UPDATE counter SET value = ? WHERE n = ?", base + 1, n);
              tx.run("INSERT INTO history VALUES (?, ?, ?)", n, base + 1, String(token));
            }),
        };
      },
    };
  }
  const { postgresFence } = await import("tenure/fences/postgres");
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({ connectionString: postgres, max: 3 });
  pool.on("error", () => undefined);
  const fence = postgresFence(pool);
  return {
    close: () => pool.end(),
    async arm(owned, partition) {
      const handle = await fence.arm(bearer(owned), `counter/${partition}`);
      return {
        read: async () => {
          const text = "SELECT value FROM counter WHERE n = $1";
          const [row] = await handle.read((tx) => tx.query(text, [partition]));
          return Number(row.value);
        },
        add: (base, token) =>
          handle.write(async (tx) => {
            await tx.query("UPDATE counter SET value = $2 WHERE n = $1", [partition, base + 1]);
            const row = [partition, base + 1, String(token)];
            await tx.query("INSERT INTO history VALUES ($1, $2, $3)", row);
          }),
      };
    },
  };
}

/** Without the signal of the partition: late writes are sent, and the fence alone decides. */
function bearer({ name, token, holder, storeId }) {
  return { name, token, holder, storeId };
}

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
