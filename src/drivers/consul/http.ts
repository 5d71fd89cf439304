/**
 * Requests to one agent over HTTP, each bounded in time.
 *
 * Three lanes with connections of their own: a crowd of acquires, or of waiters that listen, must
 * not keep a renewal from being sent. Together they stay below the 200 connections that an agent
 * takes from one address (`http_max_conns_per_client`).
 */
import http from "node:http";
import https from "node:https";
import type { Timers } from "../../core/clock.js";
import { UnavailableError } from "../../core/errors.js";
import type { ConsulAddress } from "./address.js";
import { tlsHint, type FirstFailure, type TlsNames } from "../tls-hint.js";
import { explainAnswer, explainBroken, explainSilence, type ConsulFailure } from "./errors.js";

/** Which connections a request goes over. */
export type Lane = "commands" | "renewals" | "watches";

/** Most connections of each lane. */
const LANES: Readonly<Record<Lane, number>> = { commands: 32, renewals: 4, watches: 100 };

const TLS: TlsNames = {
  plain: "consul://",
  secure: "consuls://",
  authority: "the option tls.ca, or NODE_EXTRA_CA_CERTS",
};

/** Bounds of one request. */
export interface Bounds {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** One request. */
export interface HttpRequest extends ConsulFailure {
  readonly method: "GET" | "PUT";
  /** With its query. */
  readonly path: string;
  readonly body?: string;
  /** Statuses, beside 200, that are an answer and no error. */
  readonly accept?: readonly number[];
  /** Default `commands`. */
  readonly lane?: Lane;
}

/** An answer. */
export interface HttpReply {
  readonly status: number;
  readonly body: string;
  /** `X-Consul-Index`, where there is one. */
  readonly index: bigint | undefined;
}

/** Connections to one agent. */
export class ConsulHttp {
  readonly #address: ConsulAddress;
  readonly #timers: Timers;
  readonly #agents = new Map<Lane, http.Agent>();
  readonly #open = new Set<http.ClientRequest>();
  #isClosed = false;
  /** Whether it has ever answered: then the URL is right. */
  #hasAnswered = false;

  constructor(address: ConsulAddress, timers: Timers) {
    this.#address = address;
    this.#timers = timers;
  }

  /**
   * Sends a request.
   *
   * @throws UnavailableError when it certainly did nothing, OutcomeUnknownError when it may have.
   */
  async send(request: HttpRequest, bounds: Bounds): Promise<HttpReply> {
    if (this.#isClosed) {
      const text = `cannot ${request.during}: the connection is closed`;
      throw new UnavailableError(text, { backend: "consul", retryable: false });
    }
    const reply = await this.#exchange(request, bounds);
    const isExpected = reply.status === 200 || request.accept?.includes(reply.status) === true;
    if (isExpected) return reply;
    throw explainAnswer(reply.status, reply.body, request);
  }

  /** Ends all connections, and with them what is under way. */
  close(): void {
    this.#isClosed = true;
    for (const request of this.#open) request.destroy(new Error("closed"));
    for (const agent of this.#agents.values()) agent.destroy();
  }

  #exchange(
    wanted: HttpRequest,
    { signal, timeoutMs }: Bounds,
    isRepeat = false,
  ): Promise<HttpReply> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(explainSilence(false, wanted));
        return;
      }
      let isSent = false;
      const request = this.#request(wanted);
      let hasEnded = false;
      const giveUp = (): void => {
        end();
        reject(explainSilence(isSent, wanted, this.#hint({ wasSilent: true })));
        request.destroy();
      };
      const timer = this.#timers.after(timeoutMs, giveUp);
      const end = (): void => {
        hasEnded = true;
        timer.cancel();
        signal.removeEventListener("abort", giveUp);
        this.#open.delete(request);
      };
      const broken = (error: Error & { readonly code?: string }): void => {
        if (hasEnded) return;
        end();
        // The agent may have closed an idle connection in the moment that we took it. What changes
        // nothing may be sent again.
        if (request.reusedSocket && wanted.isRead && !isRepeat && !this.#isClosed) {
          resolve(this.#exchange(wanted, { signal, timeoutMs }, true));
          return;
        }
        const { code } = error;
        const hint = this.#hint({ code, wasClosed: code === "ECONNRESET" });
        reject(explainBroken(error, isSent, wanted, hint));
      };
      this.#open.add(request);
      signal.addEventListener("abort", giveUp);
      request.on("socket", (socket) => {
        if (!socket.connecting) isSent = true;
        else
          socket.once(this.#address.isSecure ? "secureConnect" : "connect", () => {
            isSent = true;
          });
      });
      request.on("error", broken);
      request.on("response", (response) => {
        this.#hasAnswered = true;
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("error", broken);
        response.on("end", () => {
          end();
          resolve({
            status: response.statusCode ?? 0,
            body: Buffer.concat(parts).toString("utf8"),
            index: toIndex(response.headers["x-consul-index"]),
          });
        });
      });
      request.end(wanted.body);
    });
  }

  #hint(failure: FirstFailure): string {
    return this.#hasAnswered ? "" : tlsHint(failure, this.#address.isSecure, TLS);
  }

  #request({ method, path, body, lane = "commands" }: HttpRequest): http.ClientRequest {
    const { host, port, token, isSecure, tls } = this.#address;
    const headers: http.OutgoingHttpHeaders = {};
    if (token !== undefined) headers["X-Consul-Token"] = token;
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
      headers["Content-Length"] = Buffer.byteLength(body);
    }
    const options = { host, port, method, path, headers, agent: this.#agent(lane) };
    if (!isSecure) return http.request(options);
    return https.request({ ...options, ...(tls as https.RequestOptions) });
  }

  #agent(lane: Lane): http.Agent {
    let agent = this.#agents.get(lane);
    if (agent === undefined) {
      const settings = { keepAlive: true, maxSockets: LANES[lane] };
      agent = this.#address.isSecure ? new https.Agent(settings) : new http.Agent(settings);
      this.#agents.set(lane, agent);
    }
    return agent;
  }
}

function toIndex(header: string | readonly string[] | undefined): bigint | undefined {
  return typeof header === "string" && /^\d+$/.test(header) ? BigInt(header) : undefined;
}
