/** Where the servers of an ensemble are, as a URL or a list says it. */
import { ArgumentTypeError } from "../../core/errors.js";
import type { Random } from "../../core/random.js";

/** One server. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** What a URL or list names. */
export interface Ensemble {
  readonly addresses: readonly Address[];
  /** Node under which everything lies: empty, or `/` and more. */
  readonly chroot: string;
  readonly credentials?: { readonly user: string; readonly password: string };
}

const DEFAULT_PORT = 2181;
const SCHEME = "zookeeper://";
const SHAPE = '"host:port,host:port/chroot", or a URL of the scheme zookeeper with the same';

/**
 * From `zookeeper://user:password@h1:2181,h2/chroot`, from ZooKeeper's own form of the same
 * without scheme, or from a list of `host:port`.
 *
 * @throws TypeError. What was given may carry a password, and is not repeated.
 */
export function parseEnsemble(given: string | readonly string[], option = "hosts"): Ensemble {
  const wrong = (): never => {
    const isText = typeof given === "string";
    const hidden = isText && given.startsWith(SCHEME) ? `${SCHEME}…` : "…";
    throw new ArgumentTypeError(option, isText || Array.isArray(given) ? hidden : given, SHAPE);
  };
  if (Array.isArray(given)) {
    const addresses = (given as readonly unknown[]).map(parseAddress);
    if (addresses.length === 0 || addresses.includes(undefined)) return wrong();
    return { addresses: addresses as Address[], chroot: "" };
  }
  if (typeof given !== "string") return wrong();
  const rest = given.startsWith(SCHEME) ? given.slice(SCHEME.length) : given;
  if (/[?#\s]|:\/\//.test(rest)) return wrong();
  const slash = rest.indexOf("/");
  const authority = slash < 0 ? rest : rest.slice(0, slash);
  const chroot = slash < 0 ? "" : rest.slice(slash).replace(/\/$/, "");
  if (chroot !== "" && !isPath(chroot)) return wrong();
  const at = authority.lastIndexOf("@");
  const addresses = authority
    .slice(at + 1)
    .split(",")
    .map(parseAddress);
  if (addresses.includes(undefined)) return wrong();
  const found = { addresses: addresses as Address[], chroot };
  if (at < 0) return found;
  const userinfo = authority.slice(0, at);
  const colon = userinfo.indexOf(":");
  if (colon < 1) return wrong();
  try {
    const user = decodeURIComponent(userinfo.slice(0, colon));
    const password = decodeURIComponent(userinfo.slice(colon + 1));
    return { ...found, credentials: { user, password } };
  } catch {
    return wrong();
  }
}

/** Whether this is the path of a node, from the top, without parts that servers refuse. */
function isPath(text: unknown): text is string {
  if (typeof text !== "string" || !text.startsWith("/") || text.endsWith("/")) return false;
  if (/[\0-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/.test(text)) return false;
  return text
    .slice(1)
    .split("/")
    .every((part) => part !== "" && part !== "." && part !== "..");
}

/** The node of all that is Tenure's; default `/tenure`. @throws TypeError naming the option. */
export function checkRoot(root: unknown = "/tenure"): string {
  if (isPath(root)) return root;
  throw new ArgumentTypeError("root", root, 'the path of a node, such as "/tenure"');
}

/** In an order of chance, so that not every process asks the first. */
export function shuffled(addresses: readonly Address[], random: Random): readonly Address[] {
  const left = [...addresses];
  const order: Address[] = [];
  while (left.length > 0) {
    order.push(...left.splice(Math.floor(random.uniform() * left.length), 1));
  }
  return order;
}

function parseAddress(text: unknown): Address | undefined {
  if (typeof text !== "string") return undefined;
  const match = /^(\[[0-9a-fA-F:.]+\]|[^\s:/@[\]]+)(?::(\d{1,5}))?$/.exec(text.trim());
  const port = Number(match?.[2] ?? DEFAULT_PORT);
  if (match?.[1] === undefined || port < 1 || port > 65_535) return undefined;
  return { host: match[1].replace(/^\[|\]$/g, ""), port };
}
