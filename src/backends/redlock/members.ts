/** The servers: our connections to them, what must be true of them, and the id that they share. */
import type { Call } from "../../core/backend.js";
import type { Timers } from "../../core/clock.js";
import type { EventSink } from "../../core/events.js";
import { ArgumentTypeError, GuaranteeError } from "../../core/errors.js";
import { answersOf, askAll, noMajority, quorumOf, type Verdict } from "./ballot.js";
import type { Connect, Connection, Faults, Reply } from "./client.js";
import { IDENTIFY } from "./scripts.js";

/** One server. Rejects with errors of Tenure. */
export interface Member {
  /** Rejects when the first try to connect failed. */
  readonly connected: Promise<void>;
  send(during: string, args: readonly string[]): Promise<Reply>;
  evaluate(
    during: string,
    script: string,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<Reply>;
}

/** What opening needs. */
export interface MembersOptions {
  readonly servers: readonly Connect[];
  readonly faults: Faults;
  readonly timers: Timers;
  readonly events: EventSink;
  /** Where the servers keep the id of the store. */
  readonly idKey: string;
  /** An id for servers that have none. */
  readonly freshId: string;
  /** The id to use instead. */
  readonly storeId: string | undefined;
}

/** The servers, a majority of which has answered at least once. */
export class Members {
  readonly all: readonly Member[];
  readonly storeId: string;
  readonly #connections: readonly Connection[];
  readonly #timers: Timers;

  private constructor(
    connections: readonly Connection[],
    all: readonly Member[],
    timers: Timers,
    storeId: string,
  ) {
    this.#connections = connections;
    this.all = all;
    this.#timers = timers;
    this.storeId = storeId;
  }

  /**
   * Connects. Servers that are down, or hang, may join later.
   *
   * @throws UnavailableError when a majority cannot be reached.
   * @throws GuaranteeError when two of the servers are one, or one is a cluster's.
   */
  static async open(options: MembersOptions, call: Call): Promise<Members> {
    const { faults, timers, storeId } = options;
    const connections = await Promise.all(options.servers.map((connect) => connect()));
    try {
      const members = connections.map((connection) => memberOf(connection, faults));
      if (connections.some(({ commands }) => commands.isCluster)) {
        throw new ArgumentTypeError("clients", "a cluster", "clients of independent servers");
      }
      await look(members, options, call);
      const id = storeId ?? (await identify(members, options, call));
      return new Members(connections, members, timers, id);
    } catch (error) {
      for (const connection of connections) connection.close();
      throw error;
    }
  }

  get quorum(): number {
    return quorumOf(this.all.length);
  }

  /** Asks all of them; see `askAll`. */
  ask<V, R>(
    question: (member: Member) => Promise<V>,
    verdict: Verdict<V, R>,
    call: Pick<Call, "timeoutMs">,
  ): Promise<R> {
    return askAll(this.all, question, verdict, this.#timers, call);
  }

  close(): void {
    for (const connection of this.#connections) connection.close();
  }
}

function memberOf({ commands, connected }: Connection, faults: Faults): Member {
  const told = async (during: string, answer: Promise<Reply>): Promise<Reply> => {
    try {
      return await answer;
    } catch (error) {
      throw faults.explain(error, { during, backend: "redlock" });
    }
  };
  return {
    connected,
    send: (during, args) => told(during, commands.send(args)),
    evaluate: (during, script, keys, args) => told(during, commands.evaluate(script, keys, args)),
  };
}

/** Checks what the servers say of themselves. */
async function look(
  members: readonly Member[],
  { timers, events }: MembersOptions,
  call: Call,
): Promise<void> {
  const question = async (member: Member): Promise<Info> => {
    await member.connected;
    return infoOf(String(await member.send("look at a server", ["INFO"])));
  };
  const infos = await askAll(members, question, fromMajority("connect", members), timers, call);
  const runs = infos.map((info) => info["run_id"]).filter((run) => run !== undefined);
  if (new Set(runs).size < runs.length) refuse("two of them are the same server");
  if (infos.some((info) => info["cluster_enabled"] === "1")) refuse("one belongs to a cluster");
  for (const { maxmemory_policy: policy, tcp_port: port } of infos) {
    if (policy === undefined || policy === "noeviction" || !events.wants("warning")) continue;
    const message =
      `the server on port ${port} may drop locks when memory is short ` +
      `(maxmemory-policy is ${policy}); set it to noeviction`;
    events.publish({ type: "warning", name: "redlock", backend: "redlock", message });
  }
}

type Info = Readonly<Record<string, string>>;

function infoOf(text: string): Info {
  const lines = text.split("\r\n").map((line) => /^([a-z_]+):(.*)$/.exec(line));
  return Object.fromEntries(
    lines.flatMap((found) => (found === null ? [] : [[found[1]!, found[2]!] as const])),
  );
}

function refuse(what: string): never {
  throw new GuaranteeError(`redlock needs servers that fail independently: ${what}`, {
    backend: "redlock",
  });
}

/**
 * The id of the store: what most servers have; of several with as many, the least. Whoever opens
 * at the same time finds the same, since a server changes the id it has only to the one that all
 * find. Then it must: with two ids among three servers, the loss of one would be a tie.
 */
async function identify(
  members: readonly Member[],
  { timers, idKey, freshId }: MembersOptions,
  call: Call,
): Promise<string> {
  const get = (member: Member): Promise<Reply> => member.send("read an id", ["GET", idKey]);
  const all = fromMajority<Reply>("read the id of the store", members);
  const known = (await askAll(members, get, all, timers, call)).filter((id) => id !== null);
  const proposal = known.length === 0 ? freshId : mostOf(known.map(String));
  const set = (member: Member): Promise<Reply> =>
    member.evaluate("set an id", IDENTIFY, [idKey], [proposal]);
  const ids = (await askAll(members, set, all, timers, call)).map(String);
  const id = mostOf(ids);
  const having = ids.filter((other) => other === id).length;
  const isFoundByAll = having >= quorumOf(members.length) || ids.length === members.length;
  if (having < ids.length && isFoundByAll) {
    const agree = (member: Member): Promise<Reply> =>
      member.send("set an id", ["SET", idKey, id]);
    await askAll(members, agree, all, timers, call);
  }
  return id;
}

/** All answers, once every server or at least a majority has answered. */
function fromMajority<V>(
  during: string,
  members: readonly Member[],
): Verdict<V, readonly V[]> {
  return (votes, isFinal) => {
    if (!isFinal) return undefined;
    const answers = answersOf(votes);
    if (answers.length < quorumOf(members.length)) throw noMajority(during, votes, 0);
    return answers;
  };
}

function mostOf(ids: readonly string[]): string {
  const times = (id: string): number => ids.filter((other) => other === id).length;
  return [...ids].sort((a, b) => times(b) - times(a) || (a < b ? -1 : 1))[0]!;
}
