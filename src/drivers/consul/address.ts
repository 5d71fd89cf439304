/** Where a Consul agent is, and how to speak to it: a URL and options, checked before any I/O. */
import type { SecureContextOptions } from "node:tls";
import { ArgumentTypeError } from "../../core/errors.js";
import { checkObject } from "../../core/options.js";
import { checkTlsSettings } from "../tls-settings.js";

/** TLS settings, PEM. */
export interface ConsulTls {
  /** Certificates to trust instead of the system's. */
  readonly ca?: string | Uint8Array;
  /** This client's certificate, where the agent asks for one. */
  readonly cert?: string | Uint8Array;
  /** Key of `cert`. */
  readonly key?: string | Uint8Array;
  /** Name that the agent's certificate has, where it is not the host's. */
  readonly servername?: string;
}

/** How to reach an agent, beside its URL. */
export interface ConsulConnection {
  /** ACL token. Default: the password of the URL, else none. */
  readonly token?: string;
  /** With `consuls://` only. */
  readonly tls?: ConsulTls;
}

/** A checked address. */
export interface ConsulAddress {
  readonly isSecure: boolean;
  readonly host: string;
  readonly port: number;
  readonly token: string | undefined;
  readonly tls: ConsulTls;
  /** Path of the URL: where the keys are; undefined when it has none. */
  readonly prefix: string | undefined;
}

const PORTS = { consul: 8500, consuls: 8501 } as const;
const FORM = 'a URL such as "consul://127.0.0.1:8500/prefix", or "consuls://…" for TLS';

/**
 * The address of an agent: `consul://host:8500/prefix` or, with TLS, `consuls://host:8501/prefix`.
 * An ACL token may stand as the password (`consul://:TOKEN@host`). Without a host: this machine's.
 *
 * @throws TypeError for anything else. It may carry a token, so only its scheme is repeated.
 */
export function parseAddress(url: string, connection: ConsulConnection = {}): ConsulAddress {
  const scheme = /^(consuls?):\/\//.exec(url)?.[1] as keyof typeof PORTS | undefined;
  if (scheme === undefined) throw new ArgumentTypeError("url", shown(url), FORM);
  const wrong = (must: string): never => {
    throw new ArgumentTypeError("url", `${scheme}:…`, must);
  };
  let parts: URL;
  try {
    parts = new URL(url);
  } catch {
    return wrong(FORM);
  }
  if (parts.search !== "" || parts.hash !== "") {
    wrong(`${FORM}; settings are options, not part of the URL`);
  }
  if (parts.username !== "") wrong("a URL with its ACL token as password: consul://:TOKEN@host");
  const host = parts.hostname.replace(/^\[(.*)\]$/, "$1");
  const path = decode(parts.pathname, wrong).replace(/^\//, "");
  return {
    isSecure: scheme === "consuls",
    host: host === "" ? "127.0.0.1" : host,
    port: parts.port === "" ? PORTS[scheme] : Number(parts.port),
    token: checkToken(connection.token ?? (decode(parts.password, wrong) || undefined)),
    tls: checkTls(connection.tls, scheme === "consuls"),
    prefix: path === "" ? undefined : path,
  };
}

function decode(text: string, wrong: (must: string) => never): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return wrong(FORM);
  }
}

/** Never shown: it is a secret. */
function checkToken(token: unknown): string | undefined {
  if (token === undefined) return undefined;
  if (typeof token === "string" && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new ArgumentTypeError("token", "…", "an ACL token: text of visible ASCII characters");
}

function checkTls(tls: ConsulTls | undefined, isSecure: boolean): ConsulTls {
  if (tls === undefined) return {};
  checkObject(tls, "tls");
  if (!isSecure) {
    const must = "left out with consul://; consuls:// is the one with TLS";
    throw new ArgumentTypeError("tls", "…", must);
  }
  checkTlsSettings("tls", tls as SecureContextOptions);
  return tls;
}

function shown(url: unknown): unknown {
  if (typeof url !== "string") return url;
  const colon = url.indexOf(":");
  return colon > 0 ? `${url.slice(0, colon)}:…` : "…";
}
