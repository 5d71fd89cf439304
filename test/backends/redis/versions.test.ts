import { describe, expect, it } from "vitest";
import type { Commands, Connection } from "../../../src/backends/redis/client.js";
import { redisBackend } from "../../../src/backends/redis/index.js";
import type { RedisSettings } from "../../../src/backends/redis/options.js";
import { GuaranteeError } from "../../../src/core/errors.js";
import { explainRedis } from "../../../src/drivers/redis/errors.js";
import { platform } from "../../../src/platform/index.js";
import { call } from "./bench.js";

interface Told extends RedisSettings {
  readonly isCluster?: boolean;
}

/** Opens a backend on what tells these versions: one server, or the nodes of a cluster. */
async function open(
  versions: readonly string[],
  { isCluster = false, ...settings }: Told = {},
): Promise<void> {
  const nodes = versions.map((version) => telling(`redis_version:${version}\r\nrole:master\r\n`));
  const commands: Commands = { ...nodes[0]!, isCluster, primaries: async () => nodes };
  const nobody = async (): Promise<void> => undefined;
  const connect = async (): Promise<Connection> => ({
    commands,
    channels: { subscribe: nobody, unsubscribe: nobody },
    connected: nobody(),
    close: () => undefined,
  });
  const faults = { explain: explainRedis };
  const backend = redisBackend({ ...settings, connect, faults, runtime: platform() });
  await backend.open!(call);
  await backend.close();
}

function telling(info: string): Commands {
  const node: Commands = {
    isCluster: false,
    send: async ([command]) => (command === "INFO" ? `# Server\r\n${info}` : null),
    evaluate: async () => "id",
    primaries: async () => [node],
  };
  return node;
}

describe("versions of Redis that the backend refuses when it is opened", () => {
  it.each(["5.0.14", "6.0.20"])("Redis %s, on one server", async (version) => {
    const opening = open([version]);
    await expect(opening).rejects.toThrow(GuaranteeError);
    await expect(opening).rejects.toThrow(
      `Redis ${version} is too old: 6.2 or later is needed (any Valkey will do)`,
    );
  });

  it.each([[["6.2.14"]], [["7.0.15", "6.2.14"]]])(
    "a cluster of %s, which has no channels for waiters in line",
    async (versions) => {
      const opening = open(versions, { isCluster: true });
      await expect(opening).rejects.toThrow(GuaranteeError);
      await expect(opening).rejects.toThrow(
        "Redis 6.2.14 is too old: a cluster needs 7.0 or later for waiters in line " +
          "(SSUBSCRIBE), or the option fair: false (any Valkey will do)",
      );
    },
  );

  it("a cluster of 6.0, whatever the way of waiting", async () => {
    await expect(open(["6.0.20"], { isCluster: true, fair: false })).rejects.toThrow(/6\.2 or later/);
    await expect(open(["6.0.20"], { isCluster: true })).rejects.toThrow(/needs 7\.0 .*\(SSUBSCRIBE\) \(/);
  });

  it("and no others", async () => {
    for (const version of ["6.2.0", "7.0.15", "8.4.0", "10.0.1"]) await open([version]);
    await open(["7.0.0", "10.0.1"], { isCluster: true });
    await open(["6.2.14"], { isCluster: true, fair: false });
  });
});
