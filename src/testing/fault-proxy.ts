/**
 * A TCP proxy between a client and a real server whose network can go wrong: fall silent, slow
 * down, lose one direction, cut, refuse.
 */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { Flow, type Gate } from "./fault-proxy-flow.js";
import { Tally, type Direction, type Fate } from "./fault-proxy-tally.js";

/** Where a proxy leads, and what it needs. */
export interface FaultProxyOptions {
  /** Port of the real server. */
  readonly port: number;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Needed for `delay`: `(ms) => new Promise((wake) => setTimeout(wake, ms))`. */
  readonly sleep?: (ms: number) => Promise<unknown>;
}

/** What went through a proxy so far. */
export interface FaultProxyCounts {
  /** Connections that clients have made, and those now open. */
  readonly connections: { readonly made: number; readonly open: number };
  /** Bytes by direction and fate. */
  readonly bytes: Readonly<Record<Direction, Readonly<Record<Fate, number>>>>;
}

interface Link {
  readonly client: Socket;
  readonly server: Socket | undefined;
  readonly flows: Readonly<Record<Direction, Flow>> | undefined;
}

const BOTH: readonly Direction[] = ["request", "reply"];

/** A proxy on loopback that listens. See {@link faultProxy}. */
export class FaultProxy implements AsyncDisposable {
  readonly #options: FaultProxyOptions;
  readonly #gates: Readonly<Record<Direction, Gate>> = {
    request: { mode: "open", delayMs: 0 },
    reply: { mode: "open", delayMs: 0 },
  };
  readonly #tallies: Readonly<Record<Direction, Tally>> = {
    request: new Tally(),
    reply: new Tally(),
  };
  readonly #links = new Set<Link>();
  readonly #whenMade = new Tally();
  #made = 0;
  #port = 0;
  #listener: Server | undefined;

  constructor(options: FaultProxyOptions) {
    this.#options = options;
  }

  /** Where clients connect, on 127.0.0.1; the same for good. */
  get port(): number {
    return this.#port;
  }

  get counts(): FaultProxyCounts {
    return {
      connections: { made: this.#made, open: this.#links.size },
      bytes: { request: this.#tallies.request.bytes, reply: this.#tallies.reply.bytes },
    };
  }

  /** Listens. Called by {@link faultProxy}. */
  async listen(): Promise<void> {
    if (this.#listener !== undefined) return;
    const listener = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
    this.#listener = listener;
    await new Promise<void>((resolve, reject) => {
      listener.once("error", reject);
      listener.listen(this.#port, "127.0.0.1", resolve);
    });
    this.#port = (listener.address() as AddressInfo).port;
  }

  /**
   * Bytes vanish, in one direction or both, and connections stay open: nobody is told. New
   * connections are made, since the system answers before any program is asked, and lead nowhere.
   */
  silence(direction?: Direction): void {
    for (const each of direction === undefined ? BOTH : [direction]) {
      this.#gates[each].mode = "drop";
    }
  }

  /**
   * As {@link FaultProxy.silence}, but what was sent meanwhile arrives once it heals, as packets do
   * that a system has sent again and again.
   */
  hold(direction?: Direction): void {
    for (const each of direction === undefined ? BOTH : [direction]) {
      this.#gates[each].mode = "hold";
    }
  }

  /** Bytes take this much longer, milliseconds. @throws Error without `sleep`. */
  delay(ms: number, direction?: Direction): void {
    if (this.#options.sleep === undefined) throw new Error("a delay needs the option sleep");
    for (const each of direction === undefined ? BOTH : [direction]) {
      this.#gates[each].delayMs = ms;
    }
  }

  /** Resets all connections, for both of their ends. New ones are welcome. */
  cut(): void {
    for (const link of [...this.#links]) this.#cut(link);
  }

  /** Nobody listens any more: new connections are refused. Present ones stay. */
  refuse(): void {
    this.#listener?.close();
    this.#listener = undefined;
  }

  /**
   * All faults end. What was held arrives; connections that lost bytes are reset, since a stream
   * with a hole cannot go on.
   */
  async heal(): Promise<void> {
    for (const gate of Object.values(this.#gates)) {
      gate.mode = "open";
      gate.delayMs = 0;
    }
    for (const link of [...this.#links]) {
      const { client, server, flows } = link;
      const isWhole = flows !== undefined && BOTH.every((each) => !flows[each].hasHole);
      // One of the ends may have gone while the other was not to know.
      if (!isWhole || client.destroyed || server?.destroyed === true) this.#cut(link);
      else for (const each of BOTH) flows[each].open();
    }
    await this.listen();
  }

  /** Resolves once `bytes` more, from now, have come through. Default: any at all. */
  passed(direction: Direction, bytes = 1): Promise<void> {
    return this.#tallies[direction].next("passed", bytes);
  }

  /** Resolves once `bytes` more, from now, have vanished. Default: any at all. */
  dropped(direction: Direction, bytes = 1): Promise<void> {
    return this.#tallies[direction].next("dropped", bytes);
  }

  /** Resolves once `count` more connections, from now, have been made by clients. */
  connected(count = 1): Promise<void> {
    return this.#whenMade.next("passed", count);
  }

  /** Ends the proxy and its connections. */
  async close(): Promise<void> {
    this.refuse();
    this.cut();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #accept(client: Socket): void {
    const link = this.#gates.request.mode === "drop" ? this.#swallow(client) : this.#join(client);
    this.#links.add(link);
    this.#made += 1;
    this.#whenMade.count("passed", 1);
  }

  /** A connection that leads nowhere. */
  #swallow(client: Socket): Link {
    const link: Link = { client, server: undefined, flows: undefined };
    client.on("data", (bytes) => this.#tallies.request.count("dropped", bytes.length));
    client.on("error", () => undefined);
    client.on("close", () => void this.#links.delete(link));
    return link;
  }

  #join(client: Socket): Link {
    const { port, host = "127.0.0.1", sleep = noSleep } = this.#options;
    const server = connect({ port, host, allowHalfOpen: true });
    client.setNoDelay();
    server.setNoDelay();
    const { request, reply } = this.#gates;
    const flows = {
      request: new Flow(client, server, request, this.#tallies.request, sleep),
      reply: new Flow(server, client, reply, this.#tallies.reply, sleep),
    };
    const link: Link = { client, server, flows };
    const watch = (socket: Socket, other: Socket, onward: Flow): void => {
      // What the error was is told to the other end by a reset, below.
      socket.on("error", () => undefined);
      socket.on("close", (hadError) => {
        if (client.destroyed && server.destroyed) this.#links.delete(link);
        else if (hadError && !onward.isSilent) other.resetAndDestroy();
      });
    };
    watch(client, server, flows.request);
    watch(server, client, flows.reply);
    return link;
  }

  #cut(link: Link): void {
    this.#links.delete(link);
    for (const socket of [link.client, link.server]) socket?.resetAndDestroy();
  }
}

/** A proxy in front of a server, listening on a free loopback port. To be closed. */
export async function faultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const proxy = new FaultProxy(options);
  await proxy.listen();
  return proxy;
}

const noSleep = (): Promise<never> => Promise.reject(new Error("a delay needs the option sleep"));
