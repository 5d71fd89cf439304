/**
 * What to say of TLS where a server was reached for the first time, and nothing came of it.
 *
 * A server without TLS waits for the rest of what it takes for a request, or answers in plain text;
 * one with TLS hangs up on who speaks plainly. None says so in words that a user finds by himself.
 */

/** How a first connection failed. */
export interface FirstFailure {
  /** `code` of the error, where it has one. */
  readonly code?: string | undefined;
  /** Nothing came in time. */
  readonly wasSilent?: boolean;
  /** The other side closed the connection. */
  readonly wasClosed?: boolean;
}

/** What a store calls the two ways of speaking to it, and how to trust a certificate of its. */
export interface TlsNames {
  /** `redis://`, say. */
  readonly plain: string;
  /** `rediss://`, say. */
  readonly secure: string;
  /** As it stands after "trust it with". */
  readonly authority: string;
}

/** Codes of Node, and of OpenSSL, for a certificate that is not trusted. */
const UNTRUSTED =
  /^(ERR_TLS_CERT_|CERT_|SELF_SIGNED_CERT|DEPTH_ZERO_SELF_SIGNED|UNABLE_TO_(GET_ISSUER|VERIFY)_)/;

/** Whether a certificate was not trusted: it stays so until somebody changes something. */
export function isUntrusted(code: string | undefined): boolean {
  return UNTRUSTED.test(code ?? "");
}

/** What follows the reason, or nothing. */
export function tlsHint(failure: FirstFailure, withTls: boolean, names: TlsNames): string {
  const { code = "", wasSilent = false, wasClosed = false } = failure;
  if (withTls && isUntrusted(code)) return `; trust its certificate with ${names.authority}`;
  const isNoTls = wasSilent || code === "EPROTO" || code.startsWith("ERR_SSL_");
  if (withTls && isNoTls) return `; where no TLS is spoken, the URL is ${names.plain}`;
  if (!withTls && wasClosed) return `; where only TLS is spoken, the URL is ${names.secure}`;
  return "";
}
