/** Connections of a pool. */
import { whenAborted } from "../../core/aborting.js";
import { noneFree } from "../connecting.js";
import type { CorePool, CorePoolConnection } from "./client.js";
import { Session } from "./connection.js";
import { explainMysql } from "./errors.js";

/** Listeners are added once to a connection, however often it is taken out of its pool. */
const sessions = new WeakMap<CorePoolConnection, Session>();

/** A connection of a pool as a session. */
export function sessionOf(connection: CorePoolConnection): Session {
  const known = sessions.get(connection) ?? new Session(connection);
  sessions.set(connection, known);
  return known;
}

/** A free connection, no later than somebody has patience; one that comes later is given back. */
export function reserve(
  pool: CorePool,
  patience: AbortSignal | undefined,
): Promise<CorePoolConnection> {
  return new Promise((resolve, reject) => {
    let isOver = false;
    const end = (): void => {
      isOver = true;
      reject(noneFree("mysql", "connectionLimit"));
    };
    // Shared by all calls that began at about the same time.
    const unlisten = whenAborted(patience, end);
    if (isOver) return;
    pool.getConnection((error, connection) => {
      unlisten();
      if (error !== null && error !== undefined) {
        reject(explainMysql(error, { during: "connect", backend: "mysql", unsent: true }));
      } else if (isOver) connection.release();
      else resolve(connection);
    });
  });
}
