import { createSecureContext, type SecureContextOptions } from "node:tls";
import { ArgumentTypeError } from "../core/errors.js";

/**
 * Certificates and keys that TLS takes, before any I/O. Else each connection fails with OpenSSL's
 * words alone, and some of them while they are being made.
 *
 * @param option what they were given as
 * @throws TypeError that tells OpenSSL's reason, and nothing of a key.
 */
export function checkTlsSettings(option: string, settings: SecureContextOptions): void {
  try {
    createSecureContext(settings);
  } catch (error) {
    const must = "what TLS takes: PEM text, with a key that belongs to its certificate";
    throw new ArgumentTypeError(option, (error as Error).message, must);
  }
}
