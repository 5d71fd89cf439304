import { writeFile } from "node:fs/promises";
import path from "node:path";
import { redisProgram, type RedisServer } from "../../servers/redis.js";
import { sendCommand } from "../../servers/resp.js";
import { ServerProcess } from "../../servers/server.js";

/** What the sentinels call it. */
export const PRIMARY = "leases";

/** Watches a primary alone, and is quick to give it up. */
export class Sentinel extends ServerProcess {
  /** @param replicas which the primary has, and the sentinel is to know of */
  constructor(primary: RedisServer, replicas = 1) {
    super({
      ...redisProgram,
      args: (_port, folder) => [path.join(folder, "sentinel.conf"), "--sentinel"],
      url: (port) => `redis://127.0.0.1:${port}`,
      configure: (port, folder) =>
        writeFile(
          path.join(folder, "sentinel.conf"),
          `port ${port}\nbind 127.0.0.1\ndir ${folder}\n` +
            `sentinel monitor ${PRIMARY} 127.0.0.1 ${primary.port} 1\n` +
            `sentinel down-after-milliseconds ${PRIMARY} 1000\n`,
        ),
      // Until it has heard of the replica there is nobody to promote.
      isReady: async (port) => {
        const known = await sendCommand(port, ["SENTINEL", "REPLICAS", PRIMARY]);
        return Array.isArray(known) && known.length === replicas;
      },
    });
  }
}
