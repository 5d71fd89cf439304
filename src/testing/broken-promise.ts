/** A promise of the contract or the manifest that a backend did not keep. */
export class BrokenPromise extends Error {
  /** Which promise: a manifest field with its value, or a method of the contract. */
  readonly promise: string;

  constructor(promise: string, seen: string, options?: { readonly cause: unknown }) {
    super(`${promise}: ${seen}`, options);
    this.name = "BrokenPromise";
    this.promise = promise;
  }
}

/**
 * Fails a case unless `kept`.
 *
 * @throws BrokenPromise naming the promise and what was seen instead.
 */
export function must(kept: boolean, promise: string, seen: string): asserts kept {
  if (!kept) throw new BrokenPromise(promise, seen);
}
