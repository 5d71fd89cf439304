/**
 * What tells others of this machine whether this process leads: a file that exists while it does,
 * and a port that answers 200 while it does.
 *
 * The port looks at the clock with each request, so that a process that was frozen does not say yes
 * after it has woken. The file is removed by this process: killed or frozen, it leaves the file
 * behind, and only the next start with the same path removes it.
 */
import { accessSync, constants, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import path from "node:path";
import type { Leadership } from "../election/term.js";
import { UsageError } from "./arguments.js";

/** Where to tell; either may be left out. */
export interface ReadyPlaces {
  readonly file: string | undefined;
  readonly port: number | undefined;
}

/** Tells whether this process leads. */
export class Readiness {
  readonly #file: string | undefined;
  #server: Server | undefined;
  #term: Leadership | undefined;

  private constructor(file: string | undefined) {
    this.#file = file;
  }

  /**
   * Removes a file that an earlier process left behind, and listens on the port.
   *
   * @throws UsageError naming flag and value when the file cannot be made or the port is taken.
   */
  static async open({ file, port }: ReadyPlaces): Promise<Readiness> {
    const readiness = new Readiness(file === undefined ? undefined : path.resolve(file));
    if (readiness.#file !== undefined) clear(readiness.#file);
    if (port !== undefined) await readiness.#listen(port);
    return readiness;
  }

  /** The port that is listened on, where there is one. */
  get port(): number | undefined {
    const address = this.#server?.address();
    return typeof address === "object" ? address?.port : undefined;
  }

  /** From now on, until the term is revoked, this process leads. */
  leads(term: Leadership): void {
    this.#term = term;
    if (this.#file !== undefined) {
      // Whole or not at all, for a reader that looks meanwhile.
      const fresh = `${this.#file}.${process.pid}`;
      writeFileSync(fresh, `${term.term}\n`);
      renameSync(fresh, this.#file);
    }
    term.signal.addEventListener("abort", () => this.follows(term), { once: true });
    if (term.signal.aborted) this.follows(term);
  }

  /** The term has ended; another one, that has begun since, is left alone. */
  follows(term: Leadership): void {
    if (this.#term !== term) return;
    this.#term = undefined;
    if (this.#file !== undefined) rmSync(this.#file, { force: true });
  }

  close(): void {
    if (this.#term !== undefined) this.follows(this.#term);
    this.#server?.close();
    this.#server?.closeAllConnections();
  }

  /** The term that leads now, by the clock. */
  #leading(): Leadership | undefined {
    const term = this.#term;
    return term !== undefined && !term.signal.aborted && term.remaining() > 0 ? term : undefined;
  }

  async #listen(port: number): Promise<void> {
    const { createServer } = await import("node:http");
    const server = createServer((_request, response) => {
      const term = this.#leading();
      response.writeHead(term === undefined ? 503 : 200, {
        "content-type": "text/plain",
        "cache-control": "no-store",
        connection: "close",
      });
      response.end(term === undefined ? "not the leader\n" : `leader, term ${term.term}\n`);
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", (error: NodeJS.ErrnoException) => {
        reject(new UsageError(`--ready-port ${port} cannot be listened on: ${error.message}`));
      });
      server.listen(port, "127.0.0.1", resolve);
    });
    this.#server = server;
  }
}

/** @throws UsageError when the file could not be made later. */
function clear(file: string): void {
  try {
    if (statSync(file, { throwIfNoEntry: false })?.isFile() === false) {
      throw new Error("there is something else");
    }
    accessSync(path.dirname(file), constants.W_OK);
    rmSync(file, { force: true });
  } catch (error) {
    throw new UsageError(`--ready-file ${file} cannot be made: ${(error as Error).message}`);
  }
}
