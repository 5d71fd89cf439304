import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { ServerProcess, type ServerKind } from "../../servers/server.js";

const servers: ServerProcess[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.dispose();
});

/** A server that never answers, but for what a test changes of it. */
function serverOf(kind: Partial<ServerKind>): ServerProcess {
  const server = new ServerProcess({
    name: "Nobody",
    binary: "sleep",
    package: "coreutils",
    args: () => ["60"],
    url: (port) => `nobody:${port}`,
    isReady: async () => false,
    ...kind,
  });
  servers.push(server);
  return server;
}

it("tells why a server could not be configured, though it has no log yet", async () => {
  const server = serverOf({
    configure: async () => {
      throw new Error("no room for the configuration");
    },
  });
  await expect(server.start()).rejects.toThrow("no room for the configuration");
  expect(server.log).toBe("");
});

it("tells it too when the folder itself is gone", async () => {
  const server = serverOf({
    configure: async (_port, folder) => {
      await rm(folder, { recursive: true });
      throw new Error("no room for the configuration");
    },
  });
  await expect(server.start()).rejects.toThrow("no room for the configuration");
});

it("tells why a program cannot be run", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "tenure-no-interpreter-"));
  await writeFile(path.join(folder, "server"), "#!/no such interpreter\n", { mode: 0o755 });
  // Without a leash: what runs a program for us would tell it in the log.
  vi.stubEnv("PATH", folder);
  try {
    const server = serverOf({ binary: "server" });
    await expect(server.start()).rejects.toThrow(/Nobody cannot be started: .*ENOENT/);
  } finally {
    vi.unstubAllEnvs();
    await rm(folder, { recursive: true });
  }
});

it("tells what a server wrote that has ended", async () => {
  const server = serverOf({ binary: "ls", args: () => ["/no such folder"] });
  await expect(server.start()).rejects.toThrow(/Nobody has ended:\n.*no such folder/);
});
