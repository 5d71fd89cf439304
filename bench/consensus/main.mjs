/**
 * Leases on stores with consensus, each against its own raw operations and its peers.
 *
 * Run: npm run bench:consensus -- [--quick] [etcd:pairs|etcd:handover|…|zookeeper:held]…
 */
import { printMachine, runParts } from "../figures.mjs";
import { consul } from "./consul.mjs";
import { etcd } from "./etcd.mjs";
import { handover } from "./handover.mjs";
import { held } from "./held.mjs";
import { history } from "./history.mjs";
import { pairs } from "./pairs.mjs";
import { zookeeper } from "./zookeeper.mjs";

/** Consul only where its server was built: scripts/build-consul.mjs. */
const stores = [etcd, consul, zookeeper].filter((store) => store !== undefined);
const kinds = { pairs, handover, held, history };
/** Only etcd keeps a history of keys that are gone. */
const kindsOf = ({ name }) =>
  Object.keys(kinds).filter((kind) => kind !== "history" || name === "etcd");

printMachine(stores.flatMap(({ versions }) => versions));
const parts = {};
for (const store of stores) {
  for (const kind of kindsOf(store)) {
    parts[`${store.name}:${kind}`] = async ({ isQuick }) => {
      const server = await store.start();
      try {
        await kinds[kind](store, server, isQuick);
      } finally {
        await server.stop();
      }
    };
  }
}
await runParts(parts);
