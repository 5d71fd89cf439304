/**
 * Sockets between the processes of one file: to wake a waiter of another process, and to notice
 * that a process has ended.
 *
 * Every process listens on a Unix socket whose path stands in its session row. Another one connects
 * to wake its waiters, or because it waits behind it. The kernel closes the connection when the
 * process ends, however it ends, and not while it is merely stopped or busy.
 *
 * A closed connection alone proves nothing (it may have been shut on purpose), so the socket is
 * tried again: a file that refuses connections has no listener any more, and a name that was drawn
 * at random is not used by another process. A path that is not there proves nothing: the process
 * may live in another container with another view of the file system. A process id would prove
 * less: it means something in its own namespace only. What is not proven is left to expiry.
 */
import type { Timers } from "../../core/clock.js";
import { mkdir, readdir, rename, rmdir, unlink } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";

/** Which process: its session, and the path of its socket. */
export interface Peer {
  readonly session: bigint;
  readonly address: string;
}

/** What the sockets tell. */
export interface PeerNews {
  /** A waiter of this process may have been offered a lease. */
  woken(holder: string): void;
  /** The process of this session has certainly ended. */
  ended(peer: Peer): void;
}

/** Settings of {@link Peers}. */
export interface PeerOptions {
  /** Folder for the socket, made when missing. */
  readonly folder: string;
  /** Where the path would be too long, or the file system knows no sockets. */
  readonly tempFolder: string;
  readonly refusalIsProof: boolean;
  /** A random name. */
  readonly name: string;
  readonly timers: Timers;
}

/** Longest path that every platform takes: `sun_path` has 104 bytes on BSD systems. */
const LONGEST_PATH = 100;
const LONGEST_MESSAGE = 4_096;
/** Behind the name of a socket that does not listen yet: see `#listenAt`. */
const UNHEARD = "-";
const SECOND_LOOKS = 5;
const SECOND_LOOK_MS = 10;

/** The connections of this process to the others. */
export class Peers {
  readonly #options: PeerOptions;
  readonly #news: PeerNews;
  readonly #out = new Map<bigint, Socket>();
  readonly #in = new Set<Socket>();
  #server: { readonly listener: Server; readonly path: string } | undefined;
  #closed = false;

  constructor(options: PeerOptions, news: PeerNews) {
    this.#options = options;
    this.#news = news;
  }

  /** Path of this process's socket; undefined where none can be had: then looking must do. */
  async listen(): Promise<string | undefined> {
    const { folder, tempFolder, name } = this.#options;
    const beside = join(folder, `${name}.sock`);
    if (Buffer.byteLength(beside + UNHEARD) <= LONGEST_PATH) {
      // Again, since another process may be removing the empty folder.
      for (let i = 0; i < 3; i++) {
        await mkdir(folder, { recursive: true }).catch(() => undefined);
        if (await this.#listenAt(beside)) return beside;
      }
    }
    const elsewhere = join(tempFolder, `tenure-${name}.sock`);
    return (await this.#listenAt(elsewhere)) ? elsewhere : undefined;
  }

  /** Tells another process that one of its waiters was offered a lease. The notice may get lost. */
  wake(peer: Peer, holder: string): void {
    this.#connection(peer)?.write(`${holder}\n`);
  }

  /** Makes sure that the end of a process will be noticed. */
  watch(peer: Peer): void {
    this.#connection(peer);
  }

  /** Whether a process has certainly ended. A connection is made or refused at once. */
  async hasEnded(peer: Peer): Promise<boolean> {
    if (this.#closed || this.#out.get(peer.session)?.readyState === "open") return false;
    return (await probe(peer.address)) === "refused" && this.#options.refusalIsProof;
  }

  /** Removes socket files of processes that died before their session was known, or with it. */
  async tidy(known: ReadonlySet<string>): Promise<void> {
    const names = await readdir(this.#options.folder).catch(() => []);
    for (const name of names) {
      const address = join(this.#options.folder, name);
      if (known.has(address) || !name.endsWith(".sock")) continue;
      if ((await probe(address)) === "refused") await removeSocket(address);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const socket of [...this.#out.values(), ...this.#in]) socket.destroy();
    this.#out.clear();
    const server = this.#server;
    if (server === undefined) return;
    await new Promise<void>((resolve) => server.listener.close(() => resolve()));
    await removeSocket(server.path);
    await rmdir(this.#options.folder).catch(() => undefined);
  }

  /**
   * Between being there and listening a socket refuses connections, as that of a dead process does,
   * and another process would tidy it away: nobody could wake this one any more. So it gets its
   * name when it listens.
   */
  async #listenAt(path: string): Promise<boolean> {
    const server = createServer((socket) => this.#accept(socket));
    server.unref();
    const listening = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(path + UNHEARD, () => resolve(true));
    });
    if (!listening) return false;
    server.on("error", () => undefined);
    try {
      await rename(path + UNHEARD, path);
    } catch {
      server.close();
      return false;
    }
    this.#server = { listener: server, path };
    return true;
  }

  #accept(socket: Socket): void {
    let text = "";
    this.#in.add(socket);
    socket.unref().setEncoding("latin1");
    socket.on("error", () => undefined);
    socket.on("close", () => this.#in.delete(socket));
    socket.on("data", (chunk: string) => {
      const lines = (text + chunk).split("\n");
      text = lines.pop()!.slice(-LONGEST_MESSAGE);
      for (const holder of lines) this.#news.woken(holder);
    });
  }

  #connection(peer: Peer): Socket | undefined {
    if (this.#closed) return undefined;
    const known = this.#out.get(peer.session);
    if (known !== undefined) return known;
    const socket = connect(peer.address);
    let connected = false;
    this.#out.set(peer.session, socket);
    socket.unref();
    socket.on("connect", () => (connected = true));
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.#out.delete(peer.session);
      void this.#lookWhy(peer, connected);
    });
    // Nothing is said on this side; reading is what notices the end.
    socket.resume();
    return socket;
  }

  /**
   * A connection has ended. A process that is being killed may still seem to listen:
   *
   * 1. The kernel closes the descriptors of P one by one, the connection first.
   * 2. We try the socket of P again, and it takes the connection.
   * 3. The kernel closes the socket of P.
   *
   * So an open socket is tried again a little later, some times.
   */
  async #lookWhy(peer: Peer, wasConnected: boolean, tries = 0): Promise<void> {
    const seen = this.#closed ? "unsure" : await probe(peer.address);
    if (this.#closed) return;
    if (seen === "refused" && (wasConnected || this.#options.refusalIsProof)) {
      this.#news.ended(peer);
    } else if (seen === "open" && tries < SECOND_LOOKS) {
      const look = (): void => void this.#lookWhy(peer, wasConnected, tries + 1);
      this.#options.timers.after(SECOND_LOOK_MS, look, { ref: false });
    }
  }
}

/** Removes the socket file of a process that has ended. */
export async function removeSocket(address: string): Promise<void> {
  await unlink(address).catch(() => undefined);
}

async function probe(address: string): Promise<"open" | "refused" | "unsure"> {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.on("connect", () => {
      socket.destroy();
      resolve("open");
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      resolve(error.code === "ECONNREFUSED" ? "refused" : "unsure");
    });
  });
}
