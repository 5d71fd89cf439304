import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { UnavailableError } from "../../../src/core/errors.js";
import { connect } from "../../../src/connect.js";
import { consul } from "../../../src/backends/consul/open.js";
import { consulFence } from "../../../src/fences/consul/open.js";
import { bearer } from "../../fences/bearers.js";
import { consulProgram, startConsul, type ConsulServer } from "../../servers/consul.js";
import { describeOptional, mustFind } from "../../servers/find.js";
import { reasonOf } from "./bench.js";
import { freePort } from "../../servers/free-port.js";

const ROOT = "5f7a3f0e-9b0e-4b8e-8d53-0f2f7f6a1c11";
const WRONG = "11111111-2222-3333-4444-555555555555";

describeOptional(consulProgram, "consul backend behind ACLs", () => {
  let server: ConsulServer;
  beforeAll(async () => {
    const acl = { enabled: true, default_policy: "deny", tokens: { initial_management: ROOT } };
    // The default minimum of a session's TTL: 10 s.
    server = await startConsul({ acl, session_ttl_min: "10s" }, ROOT);
  });
  afterAll(() => server.dispose());

  /** A token with these rules, and its public id. */
  async function makeToken(rules: string): Promise<{ SecretID: string; AccessorID: string }> {
    const name = `p${Math.random().toString(36).slice(2)}`;
    await server.call("PUT", "acl/policy", { Name: name, Rules: rules });
    return server.call("PUT", "acl/token", { Policies: [{ Name: name }] });
  }
  const tokenFor = async (rules: string): Promise<string> => (await makeToken(rules)).SecretID;
  const KEYS = 'key_prefix "tenure/" { policy = "write" }';
  const SESSIONS = 'session_prefix "" { policy = "write" }';

  it("works with the rights that the guide names, the token in the URL or an option", async () => {
    const token = await tokenFor(`${KEYS} ${SESSIONS}`);
    const byUrl = await connect(`consul://:${token}@127.0.0.1:${server.port}`);
    const lease = await byUrl.acquire("x", { ttl: "10s" });
    expect(await lease.renew()).toBeUndefined();
    const byOption = await connect(consul(server.url, { token }));
    expect(await byOption.tryAcquire("x")).toBeNull();
    const fence = consulFence(server.url, { token, prefix: "tenure" });
    const handle = await fence.arm(bearer(7n), "r");
    await handle.write((tx) => tx.set("tenure/data", "1"));
    await byUrl.close();
    await byOption.close();
  });

  it("tells a wrong token, and one that may too little, and shows neither", async () => {
    const mute = await tokenFor(KEYS);
    const deaf = await tokenFor(SESSIONS);
    const opened = await connect(consul(server.url, { token: mute }));
    const tries: Record<string, () => Promise<unknown>> = {
      [WRONG]: () => connect(`consul://:${WRONG}@127.0.0.1:${server.port}`),
      [deaf]: () => connect(consul(server.url, { token: deaf })),
      [mute]: () => opened.tryAcquire("x"),
    };
    for (const [token, start] of Object.entries(tries)) {
      const error = await start().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(UnavailableError);
      expect(error).toMatchObject({ retryable: false });
      expect((error as Error).message).toMatch(/ACL token is missing, unknown or may not do this/);
      expect(JSON.stringify(error) + String((error as Error).stack)).not.toContain(token);
    }
    await opened.close();
  });

  it("tells a holder whose token was taken away, by its deadline, and what it does next", async () => {
    const { SecretID: token, AccessorID: id } = await makeToken(`${KEYS} ${SESSIONS}`);
    const locks = await connect(consul(server.url, { token }));
    const lease = await locks.acquire("revoked", { ttl: "10s" });
    await server.call("DELETE", `acl/token/${id}`);
    const refused = { family: "unavailable", retryable: false };
    await expect(lease.renew()).rejects.toMatchObject(refused);
    await expect(locks.acquire("another", { wait: "60s" })).rejects.toThrow(/ACL token/);
    const lost = await reasonOf(lease.signal);
    expect(lost).toMatchObject({ reason: "deadline" });
    expect(JSON.stringify(lost) + String(lost)).not.toContain(token);
    await locks.close().catch(() => undefined);
  });

  it("refuses a TTL below the minimum, its own or the servers', and names it", async () => {
    const own = await connect(consul(server.url, { token: ROOT }));
    const early = own.tryAcquire("x", { ttl: "9s" });
    await expect(early).rejects.toMatchObject({ code: "TENURE_INVALID_ARGUMENT", option: "ttl" });
    await expect(early).rejects.toThrow(/at least 10s/);
    await own.close();
    const told = await connect(consul(server.url, { token: ROOT, minTtl: "1s" }));
    const late = told.tryAcquire("x", { ttl: "9s" });
    await expect(late).rejects.toMatchObject({ code: "TENURE_INVALID_ARGUMENT", option: "ttl" });
    await expect(late).rejects.toThrow(/between 10s and 24h0m0s.*session_ttl_min/);
    await told.close();
  });
});

describeOptional(consulProgram, "consul backend over TLS", () => {
  it("trusts the authority that it was given, shows its certificate, and trusts no other", async () => {
    const folder = await mkdtemp(path.join(tmpdir(), "tenure-consul-tls-"));
    const make = promisify(execFile);
    const program = mustFind(consulProgram);
    await make(program, ["tls", "ca", "create"], { cwd: folder });
    for (const role of ["-server", "-client"]) {
      await make(program, ["tls", "cert", "create", role], { cwd: folder });
    }
    const pem = (name: string): string => path.join(folder, name);
    const https = await freePort();
    await using server = await startConsul({
      ports: { https },
      tls: {
        defaults: {
          ca_file: pem("consul-agent-ca.pem"),
          cert_file: pem("dc1-server-consul-0.pem"),
          key_file: pem("dc1-server-consul-0-key.pem"),
        },
        https: { verify_incoming: true },
      },
    });
    const url = `consuls://127.0.0.1:${https}`;
    const ca = await readFile(pem("consul-agent-ca.pem"));
    const own = {
      cert: await readFile(pem("dc1-client-consul-0.pem")),
      key: await readFile(pem("dc1-client-consul-0-key.pem")),
    };
    const locks = await connect(consul(url, { tls: { ca, ...own } }));
    const lease = await locks.acquire("x");
    await lease.renew();
    expect((await server.keys("tenure/lease/")).length).toBe(1);
    await locks.close();
    await expect(connect(consul(url, { tls: own }))).rejects.toThrow(/no connection.*certificate/);
    await expect(connect(consul(url, { tls: { ca } }))).rejects.toThrow(UnavailableError);
    await rm(folder, { recursive: true });
  });
});

describe("options of consul", () => {
  it.each<[option: string, make: () => unknown, said: RegExp]>([
    ["url", () => consul("http://127.0.0.1:8500"), /consul:\/\/127/],
    ["url", () => consul("consul://u:secret@h/"), /ACL token as password/],
    ["url", () => consul("consul://:secret@h:99999/"), /a URL such as/],
    ["url", () => consul("consul://:secret@h/?ttl=3"), /settings are options/],
    ["token", () => consul("consul://h", { token: "secret\n" }), /visible ASCII/],
    ["tls", () => consul("consul://h", { tls: { ca: "x" } }), /consuls:\/\//],
    ["tls", () => consul("consuls://h", { tls: { cert: "x", key: "x" } }), /what TLS takes: PEM/],
    ["prefix", () => consul("consul://h", { prefix: "a//b" }), /segments/],
    ["prefix", () => consul("consul://h/a/../../b?", { prefix: ".." }), /segments/],
    ["lockDelay", () => consul("consul://h", { lockDelay: "61s" }), /at most 1m/],
    ["minTtl", () => consul("consul://h", { minTtl: 0 }), /above 0/],
    ["lockdelay", () => consul("consul://h", { lockdelay: 1 } as never), /left out/],
    ["storeId", () => consul("consul://h", { storeId: "" }), /1 to 512/],
    ["leasePrefix", () => consulFence("consul://h", { leasePrefix: "/" }), /segments/],
  ])("refuses a wrong %s before any I/O (%#)", (option, make, said) => {
    const error = (() => {
      try {
        return make();
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(error).toMatchObject({ family: "caller", option });
    expect((error as Error).message).toMatch(said);
    expect((error as Error).message).not.toContain("secret");
  });
});
