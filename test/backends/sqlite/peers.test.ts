import { once } from "node:events";
import { existsSync, renameSync, watch } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { basename, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Peers, type Peer } from "../../../src/backends/sqlite/peers.js";
import { temporaryFolder } from "./folder.js";

/** Sockets of this process, with timers that run when told. */
function peersIn(folder: string) {
  const timers: (() => void)[] = [];
  const woken: string[] = [];
  let told: ((peer: Peer) => void) | undefined;
  const ended = new Promise<Peer>((resolve) => (told = resolve));
  const after = (_ms: number, run: () => void) => {
    timers.push(run);
    return { cancel: () => undefined };
  };
  const peers = new Peers(
    {
      folder,
      tempFolder: folder,
      refusalIsProof: true,
      name: `me-${Math.random()}`,
      timers: { after, soon: (run) => after(0, run) },
    },
    { woken: (holder) => woken.push(holder), ended: (peer) => told!(peer) },
  );
  onTestFinished(() => peers.close());
  return { peers, timers, woken, ended };
}

/** Another process, as its socket shows it. */
async function other(folder: string) {
  const address = join(folder, "other.sock");
  const server: Server = createServer();
  onTestFinished(() => void server.close());
  server.listen(address);
  await once(server, "listening");
  return { peer: { session: 7n, address }, server };
}

/** What SIGKILL leaves behind: a socket file without a listener. */
async function die({ peer, server }: { peer: Peer; server: Server }): Promise<void> {
  renameSync(peer.address, `${peer.address}.kept`);
  server.close();
  await once(server, "close");
  renameSync(`${peer.address}.kept`, peer.address);
}

async function connection(server: Server): Promise<Socket> {
  const [socket] = (await once(server, "connection")) as [Socket];
  return socket;
}

test("a process that still seems to listen while it is killed is found dead by a second look", async () => {
  const folder = temporaryFolder();
  const { peers, timers, ended } = peersIn(folder);
  const dying = await other(folder);
  peers.watch(dying.peer);
  const watch = await connection(dying.server);
  const tried = connection(dying.server);
  watch.destroy();
  (await tried).destroy();
  await expect.poll(() => timers.length).toBe(1);
  await die(dying);
  timers[0]!();
  expect(await ended).toEqual(dying.peer);
});

test("a process that closes a connection and goes on listening is not taken for dead", async () => {
  const folder = temporaryFolder();
  const { peers, timers, ended } = peersIn(folder);
  const living = await other(folder);
  let dead = false;
  void ended.then(() => (dead = true));
  peers.watch(living.peer);
  (await connection(living.server)).destroy();
  for (let looks = 0; looks < 5; looks++) {
    await expect.poll(() => timers.length).toBe(looks + 1);
    timers[looks]!();
  }
  expect(await peers.hasEnded(living.peer)).toBe(false);
  expect(dead).toBe(false);
});

test("a socket without a listener is proof, a path that leads nowhere is none", async () => {
  const folder = temporaryFolder();
  const { peers } = peersIn(folder);
  const gone = await other(folder);
  await die(gone);
  expect(await peers.hasEnded(gone.peer)).toBe(true);
  expect(await peers.hasEnded({ session: 8n, address: join(folder, "none.sock") })).toBe(false);
  await peers.tidy(new Set([gone.peer.address]));
  expect(existsSync(gone.peer.address)).toBe(true);
  await peers.tidy(new Set());
  expect(existsSync(gone.peer.address)).toBe(false);
});

test("a notice arrives, whatever else comes along the socket", async () => {
  const folder = temporaryFolder();
  const [a, b] = [peersIn(folder), peersIn(folder)];
  const address = (await b.peers.listen())!;
  const stranger = connect(address);
  stranger.write("x".repeat(100_000));
  a.peers.wake({ session: 1n, address }, "holder-1");
  await expect.poll(() => b.woken).toEqual(["holder-1"]);
  stranger.write("\nholder-2\n");
  await expect.poll(() => b.woken.at(-1)).toBe("holder-2");
  stranger.destroy();
  await b.peers.close();
  // With its socket goes the folder.
  expect(existsSync(folder)).toBe(false);
});

test("a socket has its name when it listens, and is not tidied away before that", async () => {
  const folder = temporaryFolder();
  const { peers } = peersIn(folder);
  const seen: string[] = [];
  const watcher = watch(folder, (_event, name) => seen.push(String(name)));
  onTestFinished(() => watcher.close());
  const name = basename((await peers.listen())!);
  await expect.poll(() => seen).toContain(name);
  expect(seen[0]).toBe(`${name}-`);

  const [young, dead] = [join(folder, "young.sock-"), join(folder, "dead.sock")];
  for (const address of [young, dead]) {
    const { peer, server } = await other(folder);
    await die({ peer, server });
    renameSync(peer.address, address);
  }
  await peers.tidy(new Set());
  expect([young, dead].map((address) => existsSync(address))).toEqual([true, false]);
  await peers.close();
  expect(existsSync(join(folder, name))).toBe(false);
});
