import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import path from "node:path";
import { faultProxy, type FaultProxy } from "../../src/testing/fault-proxy.js";
import type { Program } from "./find.js";
import { freePort } from "./free-port.js";
import { ServerProcess } from "./server.js";

/** What tests on ZooKeeper need. It is started by `java`, which its package brings along. */
export const zookeeperProgram: Program = {
  name: "ZooKeeper",
  binary: "zkServer.sh",
  package: "zookeeper",
  folders: ["/usr/share/zookeeper/bin"],
};

const JARS = ["zookeeper.jar", "slf4j-simple.jar"].map((jar) => path.join("/usr/share/java", jar));
const MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

const JVM = [
  // Small and quick to start: several of them share a machine with the tests.
  ...["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"],
  "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/** Settings of zoo.cfg, by name. */
export type ZookeeperConfig = Readonly<Record<string, string | number>>;

/** Shortest session of these servers, milliseconds; the one of the real default is 4 s. */
export const MIN_SESSION_MS = 400;

const QUIET: ZookeeperConfig = {
  clientPortAddress: "127.0.0.1",
  tickTime: 200,
  minSessionTimeout: MIN_SESSION_MS,
  maxSessionTimeout: 60_000,
  initLimit: 50,
  // Until a server that hears nothing of its leader gives up: two seconds.
  syncLimit: 10,
  maxClientCnxns: 0,
  "admin.enableServer": "false",
  "4lw.commands.whitelist": "*",
};

interface Kind {
  readonly config?: ZookeeperConfig;
  /** Number of this member of an ensemble. */
  readonly id?: number;
  /** System properties of the server. */
  readonly properties?: Readonly<Record<string, string>>;
}

/** A ZooKeeper server, alone or one of an ensemble. */
export class ZookeeperServer extends ServerProcess {
  constructor({ config = {}, id, properties = {} }: Kind = {}) {
    const settings = { ...QUIET, ...config };
    super({
      ...zookeeperProgram,
      binary: "java",
      args: (_port, folder) => [
        ...JVM,
        // Nothing here survives the machine, so nothing need wait for its disk.
        ...Object.entries({ "zookeeper.forceSync": "no", ...properties }).map(
          ([name, value]) => `-D${name}=${value}`,
        ),
        ...["-cp", JARS.join(":"), MAIN, path.join(folder, "zoo.cfg")],
      ],
      url: (port) => `zookeeper://127.0.0.1:${port}`,
      configure: async (port, folder) => {
        const data = path.join(folder, "data");
        await mkdir(data, { recursive: true });
        const lines = Object.entries({ ...settings, dataDir: data, clientPort: port });
        const text = lines.map(([name, value]) => `${name}=${value}\n`).join("");
        await writeFile(path.join(folder, "zoo.cfg"), text);
        if (id !== undefined) await writeFile(path.join(data, "myid"), String(id));
      },
      isReady: async (port) => /^Mode: /m.test(await fourLetters(port, "srvr")),
    });
  }

  /** The answer to a command of four letters, such as `wchs`. */
  ask(word: string): Promise<string> {
    return fourLetters(this.port, word);
  }

  /** `standalone`, `leader` or `follower`. */
  async mode(): Promise<string> {
    return /^Mode: (\w+)/m.exec(await this.ask("srvr"))?.[1] ?? "none";
  }

  /** Watches that this server keeps for its clients. */
  async watches(): Promise<number> {
    return Number(/Total watches:(\d+)/.exec(await this.ask("wchs"))?.[1]);
  }
}

/** A started server of its own. */
export async function startZookeeper(
  config: ZookeeperConfig = {},
  properties: Readonly<Record<string, string>> = {},
): Promise<ZookeeperServer> {
  const server = new ZookeeperServer({ config, properties });
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.dispose();
    throw error;
  }
}

/** Servers that elect a leader among themselves. */
export class ZookeeperEnsemble implements AsyncDisposable {
  readonly members: readonly ZookeeperServer[];
  readonly #links: ReadonlyMap<string, FaultProxy>;

  constructor(members: readonly ZookeeperServer[], links: ReadonlyMap<string, FaultProxy>) {
    this.members = members;
    this.#links = links;
  }

  get hosts(): readonly string[] {
    return this.members.map(({ port }) => `127.0.0.1:${port}`);
  }

  get url(): string {
    return `zookeeper://${this.hosts.join(",")}`;
  }

  async leader(): Promise<ZookeeperServer> {
    return (await this.#inMode("leader"))[0]!;
  }

  async followers(): Promise<readonly ZookeeperServer[]> {
    return this.#inMode("follower");
  }

  /** The link by which a follower follows. */
  async linkToLeader(follower: ZookeeperServer): Promise<FaultProxy> {
    const from = this.members.indexOf(follower);
    const to = this.members.indexOf(await this.leader());
    return this.#links.get(`${from} ${to}`)!;
  }

  /** All links are whole again. */
  async heal(): Promise<void> {
    await Promise.all([...this.#links.values()].map((link) => link.heal()));
  }

  async dispose(): Promise<void> {
    await Promise.all(this.members.map((member) => member.dispose()));
    await Promise.all([...this.#links.values()].map((link) => link.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  async #inMode(mode: string): Promise<readonly ZookeeperServer[]> {
    const modes = await Promise.all(
      this.members.map((member) => member.mode().catch(() => "none")),
    );
    return this.members.filter((_, i) => modes[i] === mode);
  }
}

/** A started ensemble, of three members unless told otherwise. */
export async function startEnsemble(
  size = 3,
  config: ZookeeperConfig = {},
): Promise<ZookeeperEnsemble> {
  const places = Array.from({ length: size }, (_, i) => i);
  const ports = await Promise.all(places.map(async () => [await freePort(), await freePort()]));
  const links = new Map<string, FaultProxy>();
  const members: ZookeeperServer[] = [];
  for (const from of places) {
    const lines: [string, string][] = [];
    for (const to of places) {
      const [quorum, election] = ports[to]!;
      let seen = quorum!;
      if (from !== to) {
        // A follower connects to its leader: each one by a link of its own, to be cut alone.
        const link = await faultProxy({ port: quorum! });
        links.set(`${from} ${to}`, link);
        seen = link.port;
      }
      lines.push([`server.${to + 1}`, `127.0.0.1:${seen}:${election}`]);
    }
    const peers = Object.fromEntries(lines);
    members.push(new ZookeeperServer({ config: { ...config, ...peers }, id: from + 1 }));
  }
  const ensemble = new ZookeeperEnsemble(members, links);
  try {
    await Promise.all(members.map((member) => member.start()));
    return ensemble;
  } catch (error) {
    await ensemble.dispose();
    throw error;
  }
}

async function fourLetters(port: number, word: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.setEncoding("utf8").setTimeout(2_000, () => socket.destroy(new Error("no answer")));
  let answer = "";
  socket.on("data", (text: string) => (answer += text));
  socket.write(word);
  await once(socket, "close");
  return answer;
}
