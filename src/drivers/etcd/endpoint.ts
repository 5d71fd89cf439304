/** One member of a cluster: JSON over HTTP, on connections that are kept. */
import { Agent as HttpAgent, request as httpRequest } from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { tlsHint, type FirstFailure, type TlsNames } from "../tls-hint.js";
import type { EtcdAddress, EtcdHost } from "./address.js";

const TLS: TlsNames = { plain: "etcd://", secure: "etcds://", authority: "?ca=FILE" };

/** What a member answered. */
export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** No answer. `wasSent`: the request may have reached the member all the same. */
export class NoAnswer extends Error {
  readonly wasSent: boolean;

  constructor(cause: Error & { readonly code?: string }, wasSent: boolean, hint: string) {
    // An error of several addresses has no message of its own.
    const text = cause.message === "" ? (cause.code ?? cause.name) : cause.message;
    super(`${text}${hint}`, { cause });
    this.wasSent = wasSent;
  }
}

/** Who asked: told once, of one or the other, unless the request was abandoned. */
export interface Asker {
  answered(answer: Answer): void;
  failed(error: NoAnswer): void;
}

/** One member. */
export class Endpoint {
  readonly name: string;
  /** When it last did what it was asked, on the monotonic clock, milliseconds. */
  servedMs = 0;
  readonly #host: EtcdHost;
  readonly #tls: EtcdAddress["tls"];
  #agent: HttpAgent;
  /** Whether it has ever answered: then the URL is right. */
  #hasAnswered = false;

  constructor(host: EtcdHost, tls: EtcdAddress["tls"]) {
    this.name = `${host.host.includes(":") ? `[${host.host}]` : host.host}:${host.port}`;
    this.#host = host;
    this.#tls = tls;
    this.#agent = this.#newAgent();
  }

  /** What is said of it while it says nothing. */
  get silence(): string {
    return `no answer${this.#hint({ wasSilent: true })}`;
  }

  /** Sends one request. Answers what abandons it. */
  post(
    path: string,
    body: string,
    headers: Readonly<Record<string, string>>,
    asker: Asker,
  ): () => void {
    const sending = this.#send(path, body, headers, this.#agent);
    const { request } = sending;
    let isOver = false;
    // Also once it was abandoned: then nobody is told.
    const failed = (error: Error & { readonly code?: string }): void => {
      if (isOver) return;
      isOver = true;
      const { code } = error;
      const hint = this.#hint({ code, wasClosed: code === "ECONNRESET" });
      asker.failed(new NoAnswer(error, sending.isSent, hint));
    };
    request.once("response", (response: IncomingMessage) => {
      this.#hasAnswered = true;
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => (text += part));
      response.once("end", () => {
        if (isOver) return;
        isOver = true;
        asker.answered({ status: response.statusCode ?? 0, text });
      });
      response.once("error", failed);
    });
    request.on("error", failed);
    return () => {
      isOver = true;
      request.destroy();
    };
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
    const { request } = this.#send(path, body, headers, this.#newAgent(false));
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
    request.on("error", end);
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

  #hint(failure: FirstFailure): string {
    return this.#hasAnswered ? "" : tlsHint(failure, this.#tls !== undefined, TLS);
  }

  #newAgent(keepAlive = true): HttpAgent {
    const options = { keepAlive, noDelay: true };
    return this.#tls === undefined
      ? new HttpAgent(options)
      : new HttpsAgent({ ...options, ...this.#tls });
  }

  #send(
    path: string,
    body: string,
    headers: Readonly<Record<string, string>>,
    agent: HttpAgent,
  ): Sending {
    const { host, port } = this.#host;
    const send = this.#tls === undefined ? httpRequest : httpsRequest;
    const request = send({
      ...{ host, port, path, agent, method: "POST" },
      // A list is written as it is; from an object Node makes one header at a time.
      headers: [
        ...["Host", this.name, "Content-Type", "application/json"],
        ...["Content-Length", String(Buffer.byteLength(body))],
        ...Object.entries(headers).flat(),
      ],
    });
    const sending: Sending = { request, isSent: false };
    request.once("socket", (socket) => {
      if (!socket.connecting) sending.isSent = true;
      // With TLS nothing is sent before the handshake is through.
      else
        socket.once(
          this.#tls === undefined ? "connect" : "secureConnect",
          () => (sending.isSent = true),
        );
    });
    request.end(body);
    return sending;
  }
}

/** A request on its way. */
interface Sending {
  readonly request: ClientRequest;
  /** Whether the member may have it. */
  isSent: boolean;
}
