/** Where etcd is, and as whom to speak to it: from a URL, or from a list of hosts. */
import { readFileSync } from "node:fs";
import { ArgumentRangeError, ArgumentTypeError } from "../../core/errors.js";
import { checkTlsSettings } from "../tls-settings.js";

/** How to reach etcd, beside its hosts. */
export interface EtcdAccess {
  /** User name, where the cluster wants one. With a URL: `etcd://user:password@…`. */
  readonly user?: string;
  readonly password?: string;
  /** Whether to speak TLS. Default: whether `ca`, `cert` or `key` is given, or `etcds:` said. */
  readonly tls?: boolean;
  /** Certificates of authorities to trust, PEM. Default: those that Node trusts. */
  readonly ca?: string;
  /** Certificate of this client, PEM; `key` belongs to it. */
  readonly cert?: string;
  readonly key?: string;
}

/** One member of a cluster. */
export interface EtcdHost {
  readonly host: string;
  readonly port: number;
}

/** A cluster, as read from what the caller said. */
export interface EtcdAddress {
  readonly hosts: readonly EtcdHost[];
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string } | undefined;
}

const DEFAULT_PORT = 2379;
const MUST = "a URL such as etcd://host1,host2:2379,host3 (etcds: with TLS), or a list of hosts";
const URL_PARTS = /^etcd(s?):\/\/(?:([^@/?#]*)@)?([^/?#]*)\/?(?:\?([^#]*))?$/;
const HOST_PARTS = /^(?:\[([0-9a-fA-F:.]+)\]|([^:@[\]\s]+))(?::(\d{1,5}))?$/;
const FILES = ["ca", "cert", "key"] as const;

/**
 * Reads `etcd://user:password@h1,h2:2379/?ca=FILE&cert=FILE&key=FILE`, or hosts such as `h1:2379`.
 *
 * @throws TypeError or RangeError naming what is wrong; parts of a URL are not repeated, since any
 *   of them may be part of a password that was not encoded.
 */
export function etcdAddress(given: unknown, access: EtcdAccess = {}): EtcdAddress {
  checkAccess(access);
  if (typeof given === "string") return fromUrl(given, access);
  if (!Array.isArray(given) || given.length === 0)
    throw new ArgumentTypeError("hosts", given, MUST);
  const hosts = given.map((host: unknown, i) => {
    const read = typeof host === "string" ? readHost(host) : undefined;
    if (read === undefined) {
      throw new ArgumentTypeError(`hosts[${i}]`, host, "host, or host and port: 10.0.0.1:2379");
    }
    return read;
  });
  return { hosts, ...credentials(access.user, access.password), tls: tlsOf(access) };
}

function fromUrl(url: string, access: EtcdAccess): EtcdAddress {
  const parts = URL_PARTS.exec(url);
  if (parts === null) throw new ArgumentTypeError("url", "etcd:…", MUST);
  const [, s, login, list, query] = parts;
  const hosts = (list ?? "").split(",").map((host) => {
    const read = readHost(host);
    if (read === undefined) throw new ArgumentTypeError("url", "etcd:…", MUST);
    return read;
  });
  const [user, password] = (login ?? "").split(/:(.*)/s).map(decode);
  const files = readFiles(new URLSearchParams(query));
  const isTls = s === "s" || Object.keys(files).length > 0;
  return {
    hosts,
    ...credentials(access.user ?? (user === "" ? undefined : user), access.password ?? password),
    tls: tlsOf({ ...files, ...access, ...(isTls ? { tls: true } : {}) }),
  };
}

function readHost(text: string): EtcdHost | undefined {
  const parts = HOST_PARTS.exec(text);
  const host = parts?.[1] ?? parts?.[2];
  const port = Number(parts?.[3] ?? DEFAULT_PORT);
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new ArgumentTypeError("url", "etcd:…", "a URL whose user and password are URL-encoded");
  }
}

function readFiles(query: URLSearchParams): Pick<EtcdAccess, "ca" | "cert" | "key"> {
  const read: Record<string, string> = {};
  for (const [name, file] of query) {
    if (!FILES.includes(name as (typeof FILES)[number])) {
      throw new ArgumentTypeError(
        "url",
        `?${name}=…`,
        `a URL with no more than ?${FILES.join(", ?")}`,
      );
    }
    try {
      read[name] = readFileSync(file, "utf8");
    } catch (error) {
      const { code } = error as { code?: string };
      throw new ArgumentRangeError(
        `url ?${name}`,
        file,
        `a file that can be read (${code ?? "?"})`,
      );
    }
  }
  return read;
}

function credentials(
  user: string | undefined,
  password: string | undefined,
): Pick<EtcdAddress, "user" | "password"> {
  if (user !== undefined && password === undefined) {
    throw new ArgumentTypeError("password", password, "given together with user");
  }
  return { user, password: user === undefined ? undefined : password };
}

function tlsOf({ tls, ca, cert, key }: EtcdAccess): EtcdAddress["tls"] {
  const has = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
  const given = Object.keys(has);
  if (given.length > 0) checkTlsSettings(given.join(" and "), has);
  return (tls ?? given.length > 0) ? has : undefined;
}

function checkAccess(access: EtcdAccess): void {
  for (const option of ["user", "password", ...FILES] as const) {
    const value: unknown = access[option];
    if (value === undefined || typeof value === "string") continue;
    // Not repeated: it may be a password of the wrong type.
    throw new ArgumentTypeError(option, typeof value, "text");
  }
  const { tls } = access as { readonly tls?: unknown };
  if (tls !== undefined && typeof tls !== "boolean") {
    throw new ArgumentTypeError("tls", tls, "true or false");
  }
}
