import { TenureError, type ErrorContext } from "../core/errors.js";

/** Somebody else has written since the value was read. */
export class ConflictError extends TenureError {
  readonly code = "TENURE_CONFLICT";
  readonly family = "refused";
  readonly key: string;
  /** The present version as last seen; null if there is no value. */
  readonly version: bigint | null;
  /** How often it was tried. */
  readonly attempts: number;

  constructor(
    message: string,
    context: ErrorContext & {
      readonly key: string;
      readonly version: bigint | null;
      readonly attempts: number;
    },
  ) {
    super(message, context);
    this.key = context.key;
    this.version = context.version;
    this.attempts = context.attempts;
  }
}

/** The error after so many attempts. */
export function conflict(
  key: string,
  version: bigint | null,
  attempts: number,
  backend: string,
): ConflictError {
  const at = version === null ? "there is no value" : `it has version ${version}`;
  const often = attempts === 1 ? "" : ` in each of ${attempts} attempts`;
  return new ConflictError(
    `${JSON.stringify(key)} was written by another since it was read${often}; now ${at}`,
    { key, version, attempts, backend },
  );
}
