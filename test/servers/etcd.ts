import { homedir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { PeerLinks } from "./etcd-links.js";
import type { Program } from "./find.js";
import { freePort } from "./free-port.js";
import { ServerProcess } from "./server.js";

/** What tests on etcd need. */
export const etcdProgram: Program = { name: "etcd", binary: "etcd", package: "etcd-server" };

/** A version of today, which `node scripts/servers.mjs` builds where there is Go. */
export const newEtcdProgram: Program = {
  name: "etcd 3.7",
  binary: "etcd-3.7.3",
  package: "golang-go; then: node scripts/servers.mjs",
  folders: [path.join(homedir(), ".cache/tenure-servers")],
};

/** Flags by name, without their dashes. */
export type EtcdFlags = Readonly<Record<string, string | number>>;

/** Quick elections: the shortest TTL of these servers is one second. */
const QUICK: EtcdFlags = { "heartbeat-interval": 50, "election-timeout": 500 };
const PEER_PORT = 10_000;
const SETTLED_WITHIN_MS = 15_000;
const TOKEN = "tenure";

interface Membership {
  readonly name: string;
  /** Where others reach it. */
  readonly peerUrl: string;
  readonly all: string;
}

/** An etcd server, alone or a member of a cluster. */
export class EtcdServer extends ServerProcess {
  #memberId = "";

  constructor(program: Program, flags: EtcdFlags = {}, membership?: Membership) {
    super({
      ...program,
      args: (port, folder) => {
        const client = `http://127.0.0.1:${port}`;
        const listen = `http://127.0.0.1:${port + PEER_PORT}`;
        const { name = "one", peerUrl = listen, all = `one=${listen}` } = membership ?? {};
        const given: EtcdFlags = {
          ...{ name, "data-dir": path.join(folder, "data") },
          ...{ "listen-client-urls": client, "advertise-client-urls": client },
          ...{ "listen-peer-urls": listen, "initial-advertise-peer-urls": peerUrl },
          ...{ "initial-cluster": all, "initial-cluster-token": TOKEN },
          ...QUICK,
          ...flags,
        };
        return Object.entries(given).map(([flag, value]) => `--${flag}=${value}`);
      },
      url: (port) => `etcd://127.0.0.1:${port}`,
      isReady: async (port) => {
        const status = (await callEtcd(port, "maintenance/status", {})) as { leader?: string };
        return Number(status.leader ?? 0) !== 0;
      },
    });
  }

  /** Asks this member, on a connection of its own. @throws Error with what it answered. */
  call(method: string, body: object): Promise<any> {
    return callEtcd(this.port, method, body);
  }

  /** Its id, as it tells its peers. */
  async memberId(): Promise<string> {
    this.#memberId ||= BigInt(
      (await this.call("maintenance/status", {})).header.member_id,
    ).toString(16);
    return this.#memberId;
  }

  /** Whether it says that it is the leader. */
  async isLeader(): Promise<boolean> {
    const { header, leader } = await this.call("maintenance/status", {});
    return header.member_id === leader;
  }

  /** One figure of those that the server shows. */
  async metric(name: string): Promise<number> {
    const answer = await fetch(`http://127.0.0.1:${this.port}/metrics`);
    const lines = (await answer.text()).split("\n");
    const line = lines.find((one) => one.startsWith(`${name} `));
    return Number(line?.slice(name.length) ?? NaN);
  }
}

/** A started server of its own. */
export async function startEtcd(
  flags: EtcdFlags = {},
  program: Program = etcdProgram,
): Promise<EtcdServer> {
  const server = new EtcdServer(program, flags);
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.dispose();
    throw error;
  }
}

/** Members that elect a leader among themselves, and whose links can be cut. */
export class EtcdCluster implements AsyncDisposable {
  readonly members: readonly EtcdServer[];
  readonly #links: readonly PeerLinks[];

  constructor(members: readonly EtcdServer[], links: readonly PeerLinks[]) {
    this.members = members;
    this.#links = links;
  }

  get hosts(): readonly string[] {
    return this.members.map(({ port }) => `127.0.0.1:${port}`);
  }

  get url(): string {
    return `etcd://${this.hosts.join(",")}`;
  }

  /** The leader that a majority follows. */
  async leader(): Promise<EtcdServer> {
    return await until("a leader", async () => {
      const states = await Promise.all(
        this.members.map((member) => member.call("maintenance/status", {}).catch(() => null)),
      );
      const leaders = states.map((state) => state?.leader ?? "0");
      const i = states.findIndex(
        (state) =>
          state !== null &&
          2 * leaders.filter((id) => id === state.header.member_id).length > leaders.length,
      );
      return this.members[i];
    });
  }

  async followers(): Promise<readonly EtcdServer[]> {
    const leader = await this.leader();
    return this.members.filter((member) => member !== leader);
  }

  /** Lets nothing pass between a member and the others, and tells none of them. */
  async isolate(member: EtcdServer): Promise<void> {
    const ids = await Promise.all(this.members.map((one) => one.memberId()));
    const place = this.members.indexOf(member);
    for (const [i, links] of this.#links.entries()) {
      if (i !== place) links.silence(ids[place]!);
      else for (const [j, id] of ids.entries()) if (j !== place) links.silence(id);
    }
  }

  /** All links are whole again. */
  heal(): void {
    for (const links of this.#links) links.heal();
  }

  async dispose(): Promise<void> {
    await Promise.all(this.members.map((member) => member.dispose()));
    for (const links of this.#links) links.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/** A started cluster, of three members unless told otherwise. */
export async function startEtcdCluster(
  size = 3,
  flags: EtcdFlags = {},
  program: Program = etcdProgram,
): Promise<EtcdCluster> {
  const names = Array.from({ length: size }, (_, i) => `m${i}`);
  const listen = await Promise.all(names.map(() => freePort()));
  const links = await Promise.all(listen.map((port) => PeerLinks.to(port)));
  const urls = links.map(({ port }) => `http://127.0.0.1:${port}`);
  const all = names.map((name, i) => `${name}=${urls[i]}`).join(",");
  const members = names.map((name, i) => {
    const own = { ...flags, "listen-peer-urls": `http://127.0.0.1:${listen[i]}` };
    return new EtcdServer(program, own, { name, peerUrl: urls[i]!, all });
  });
  const cluster = new EtcdCluster(members, links);
  try {
    await Promise.all(members.map((member) => member.start()));
    return cluster;
  } catch (error) {
    await cluster.dispose();
    throw error;
  }
}

async function callEtcd(port: number, method: string, body: object): Promise<any> {
  // A read that met the election of another leader was not answered: who looks, looks again.
  return until("an answer of the leader", async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/v3/${method}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { Connection: "close" },
    });
    const text = await answer.text();
    if (!answer.ok && text.includes("leader changed")) return undefined;
    if (!answer.ok) throw new Error(`${method} answered ${answer.status}: ${text}`);
    return JSON.parse(text);
  });
}

/** Waits for what a question is answered with. */
async function until<T>(what: string, ask: () => Promise<T | undefined>): Promise<T> {
  for (let waitedMs = 0; waitedMs < SETTLED_WITHIN_MS; waitedMs += 20) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    await sleep(20);
  }
  throw new Error(`waited ${SETTLED_WITHIN_MS} ms for ${what}`);
}
