import type { Terms } from "./arguments.js";
import { TenureError, type ErrorContext } from "../core/errors.js";

/** Common ground of what idempotency keys refuse. */
abstract class KeyError extends TenureError {
  readonly family = "refused";
  readonly key: string;

  constructor(message: string, context: ErrorContext & { readonly key: string }) {
    super(message, context);
    this.key = context.key;
  }
}

/** Another call is at work under this key: ask again later. Over HTTP: 409. */
export class InProgressError extends KeyError {
  readonly code = "TENURE_IN_PROGRESS";
}

/** The key was used with another input: a mistake of whoever makes keys. Over HTTP: 422. */
export class KeyReusedError extends KeyError {
  readonly code = "TENURE_KEY_REUSED";
}

/** @throws KeyReusedError for another input than the recorded one. */
export function checkInput({ key, inputHash }: Terms, recorded: string, backend: string): void {
  if (recorded === inputHash) return;
  const message = `the idempotency key ${JSON.stringify(key)} was used with another input`;
  throw new KeyReusedError(message, { key, backend });
}

/** The error of a caller whose patience is over. */
export function inProgress(key: string, backend: string): InProgressError {
  const message = `another call is at work under the idempotency key ${JSON.stringify(key)}`;
  return new InProgressError(message, { key, backend });
}
