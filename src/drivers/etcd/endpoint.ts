/** One member of a cluster: JSON over HTTP, on connections that are kept. */
import { Agent as HttpAgent, request as httpRequest } from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { EtcdAddress, EtcdHost } from "./address.js";

/** What a member answered. */
export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** No answer. `wasSent`: the request may have reached the member all the same. */
export class NoAnswer extends Error {
  readonly wasSent: boolean;

  constructor(cause: Error & { readonly code?: string }, wasSent: boolean) {
    // An error of several addresses has no message of its own.
    super(cause.message === "" ? (cause.code ?? cause.name) : cause.message, { cause });
    this.wasSent = wasSent;
  }
}

/** A request under way. `abandon` ends it; its answer is then never settled. */
export interface Exchange {
  readonly answer: Promise<Answer>;
  abandon(): void;
}

/** One member. */
export class Endpoint {
  readonly name: string;
  /** When it last did what it was asked, on the monotonic clock, milliseconds. */
  servedMs = 0;
  readonly #host: EtcdHost;
  readonly #tls: EtcdAddress["tls"];
  #agent: HttpAgent;

  constructor(host: EtcdHost, tls: EtcdAddress["tls"]) {
    this.name = `${host.host.includes(":") ? `[${host.host}]` : host.host}:${host.port}`;
    this.#host = host;
    this.#tls = tls;
    this.#agent = this.#newAgent();
  }

  /** Sends one request. */
  post(path: string, body: string, headers: Readonly<Record<string, string>>): Exchange {
    const { request, isSent } = this.#request(path, body, headers, this.#agent);
    const answer = new Promise<Answer>((resolve, reject) => {
      let text = "";
      request.once("response", (response: IncomingMessage) => {
        response.setEncoding("utf8");
        response.on("data", (part: string) => (text += part));
        response.once("end", () => resolve({ status: response.statusCode ?? 0, text }));
        response.once("error", (error) => reject(new NoAnswer(error, true)));
      });
      request.once("error", (error) => reject(new NoAnswer(error, isSent())));
    });
    return { answer, abandon: () => void request.destroy() };
  }

  /**
   * Sends one request whose answer goes on for ever, on a connection of its own. `onLine` is told
   * each line, `onEnd` once when there is nothing more. Answers what ends it, silently.
   */
  stream(
    path: string,
    body: string,
    headers: Readonly<Record<string, string>>,
    onLine: (line: string) => void,
    onEnd: (error: Error | undefined) => void,
  ): () => void {
    const { request } = this.#request(path, body, headers, this.#newAgent(false));
    let isOver = false;
    let rest = "";
    const end = (error: Error | undefined): void => {
      if (isOver) return;
      isOver = true;
      onEnd(error);
    };
    request.once("response", (response: IncomingMessage) => {
      response.setEncoding("utf8");
      response.on("data", (part: string) => {
        const lines = (rest + part).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) if (!isOver && line !== "") onLine(line);
      });
      response.once("end", () => end(undefined));
      response.once("error", end);
    });
    request.once("error", end);
    return () => {
      isOver = true;
      request.destroy();
    };
  }

  /** Forgets idle connections: behind one that fell silent, others may have died with it. */
  refresh(): void {
    const old = this.#agent;
    this.#agent = this.#newAgent();
    for (const sockets of Object.values(old.freeSockets)) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #newAgent(keepAlive = true): HttpAgent {
    const options = { keepAlive, noDelay: true };
    return this.#tls === undefined
      ? new HttpAgent(options)
      : new HttpsAgent({ ...options, ...this.#tls });
  }

  #request(
    path: string,
    body: string,
    headers: Readonly<Record<string, string>>,
    agent: HttpAgent,
  ): { readonly request: ClientRequest; readonly isSent: () => boolean } {
    const { host, port } = this.#host;
    const send = this.#tls === undefined ? httpRequest : httpsRequest;
    const length = Buffer.byteLength(body);
    const request = send({
      ...{ host, port, path, agent, method: "POST" },
      headers: { "Content-Type": "application/json", "Content-Length": length, ...headers },
    });
    let isConnected = false;
    request.once("socket", (socket) => {
      if (!socket.connecting) isConnected = true;
      // With TLS nothing is sent before the handshake is through.
      else
        socket.once(
          this.#tls === undefined ? "connect" : "secureConnect",
          () => (isConnected = true),
        );
    });
    // An abandoned request fails, and nobody listens any more.
    request.on("error", () => undefined);
    request.end(body);
    return { request, isSent: () => isConnected };
  }
}
