import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** Enough of a connection's beginning to see who speaks. */
const MOST_HEAD_BYTES = 4_096;

interface Link {
  /** Id of the member that speaks, in hexadecimal; unknown to what is no link of members. */
  from: string | undefined;
  readonly ends: readonly Socket[];
}

/**
 * The way to one member for its peers. All members see each other under one address, so the links
 * cannot be told apart by that; each says who speaks in the head of its requests.
 */
export class PeerLinks {
  readonly #cut = new Set<string>();
  readonly #links = new Set<Link>();
  readonly #toPort: number;
  readonly #listener: Server;

  private constructor(toPort: number) {
    this.#toPort = toPort;
    this.#listener = createServer((peer) => this.#accept(peer));
  }

  /** Listens on a loopback port of its own. */
  static async to(port: number): Promise<PeerLinks> {
    const links = new PeerLinks(port);
    await new Promise<void>((resolve) => links.#listener.listen(0, "127.0.0.1", resolve));
    return links;
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  /** Nothing passes any more between this member and another one, and nobody is told. */
  silence(member: string): void {
    this.#cut.add(member);
  }

  /** All pass again. Connections that lost something are reset. */
  heal(): void {
    const cut = new Set(this.#cut);
    this.#cut.clear();
    for (const { from, ends } of this.#links) {
      if (from !== undefined && cut.has(from)) for (const end of ends) end.resetAndDestroy();
    }
  }

  close(): void {
    this.#listener.close();
    for (const { ends } of this.#links) for (const end of ends) end.destroy();
  }

  #accept(peer: Socket): void {
    const member = connect(this.#toPort, "127.0.0.1");
    const link: Link = { from: undefined, ends: [peer, member] };
    this.#links.add(link);
    let head = "";
    const isCut = (): boolean => link.from !== undefined && this.#cut.has(link.from);
    peer.on("data", (bytes) => {
      if (link.from === undefined && head.length < MOST_HEAD_BYTES) {
        head += bytes.toString("latin1");
        link.from = /x-server-from: ([0-9a-f]+)/i.exec(head)?.[1];
      }
      if (!isCut()) member.write(bytes);
    });
    member.on("data", (bytes) => {
      if (!isCut()) peer.write(bytes);
    });
    for (const [end, other] of [
      [peer, member],
      [member, peer],
    ] as const) {
      end.on("error", () => undefined);
      end.on("close", () => {
        this.#links.delete(link);
        if (!isCut()) other.destroy();
      });
    }
  }
}
