/** What is said of a Redis that cannot be connected to, and for how long that is tried. */
import { createServer } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { expect, it, onTestFinished } from "vitest";
import { connect } from "../../../src/connect.js";
import { UnavailableError } from "../../../src/core/errors.js";
import { openRedis, type RedisLibrary } from "../../../src/drivers/redis/open.js";
import { certificate, certificateKey } from "../../servers/certificate.js";
import { portOf } from "../../servers/listening.js";

const libraries: readonly RedisLibrary[] = ["redis", "ioredis", "iovalkey"];

/** Takes connections and waits for the rest of a command, as Redis does. */
const plain = (): Promise<number> => portOf(createServer());
const withTls = (): Promise<number> =>
  portOf(createTlsServer({ cert: certificate, key: certificateKey }));

async function failure(url: string, library: RedisLibrary, withinMs?: number): Promise<Error> {
  const limit = withinMs === undefined ? {} : { withinMs };
  const connection = await openRedis(url, { library, ...limit });
  onTestFinished(() => connection.close());
  const error = await connection.connected.catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(UnavailableError);
  return error as Error;
}

it.each(libraries)("that speaks no TLS, or only TLS, is told as such (%s)", async (library) => {
  const silent = await failure(`rediss://127.0.0.1:${await plain()}`, library, 1_000);
  expect(silent.message).toMatch(/where no TLS is spoken, the URL is redis:\/\/$/);
  const closed = await failure(`redis://127.0.0.1:${await withTls()}`, library);
  expect(closed.message).toMatch(/where only TLS is spoken, the URL is rediss:\/\/$/);
});

it.each(libraries)("whose certificate is not trusted is told with a remedy (%s)", async (library) => {
  const error = await failure(`rediss://127.0.0.1:${await withTls()}`, library);
  expect(error.message).toMatch(
    /self-signed certificate; trust its certificate with NODE_EXTRA_CA_CERTS/,
  );
  expect(error).toMatchObject({ retryable: false });
});

it("is tried for as long as the timeout of a call says, and no longer; ten seconds are enough", async () => {
  const url = `rediss://127.0.0.1:${await plain()}`;
  const tried = async (timeout: "4s" | "7s" | "30s"): Promise<{ error: unknown; forMs: number }> => {
    const startMs = performance.now();
    const error = await connect(url, { timeout }).catch((caught: unknown) => caught);
    return { error, forMs: performance.now() - startMs };
  };
  const [short, long, endless] = await Promise.all([tried("4s"), tried("7s"), tried("30s")]);
  for (const { error } of [short, long, endless]) {
    expect(error).toBeInstanceOf(UnavailableError);
    expect((error as Error).message).toContain("where no TLS is spoken, the URL is redis://");
  }
  expect(short.forMs).toBeLessThan(4_900);
  expect(long.forMs).toBeGreaterThan(5_100);
  expect(endless.forMs).toBeGreaterThan(9_000);
  expect(endless.forMs).toBeLessThan(20_000);
});
