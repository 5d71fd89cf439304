/** What a driver throws when its client library is not installed. */
import { UnavailableError, type ErrorContext } from "../core/errors.js";

/** The line that installs what is missing is also told by itself, for programs. */
export class MissingLibraryError extends UnavailableError {
  /** Such as `npm install redis`. */
  readonly install: string;

  constructor(what: string, install: string, context: ErrorContext = {}) {
    super(`${what}: ${install}`, { ...context, retryable: false });
    // Callers know it by that name; the rest is in `install`.
    this.name = "UnavailableError";
    this.install = install;
  }
}
