import type { Work } from "../contract.js";
import { toBytes } from "./container.js";

/** The content of a resource, as a read sees it. */
export interface ReadFile {
  /** A copy of the bytes; undefined when nothing was ever put, or it was deleted. */
  bytes(): Uint8Array | undefined;
  /** The bytes as UTF-8. */
  text(): string | undefined;
}

/** The content of a resource, as a write sees it; the last `put` or `delete` counts. */
export interface WriteFile extends ReadFile {
  put(value: Uint8Array | string): void;
  delete(): void;
}

/** Runs the work of a read. */
export function runRead<R>(value: Uint8Array | undefined, work: Work<ReadFile, R>): R {
  // The handle lets no promise through: work is synchronous here.
  return work(reader(() => value)) as R;
}

/** Runs the work of a write, and says what the content is afterwards. */
export function runWrite<R>(
  before: Uint8Array | undefined,
  work: Work<WriteFile, R>,
): { readonly result: R; readonly value: Uint8Array | undefined } {
  let value = before;
  let open = true;
  const change = (next: Uint8Array | undefined): void => {
    if (!open) throw new TypeError("this write has ended");
    value = next;
  };
  try {
    const result = work({
      ...reader(() => value),
      put: (next) => change(toBytes(next)),
      delete: () => change(undefined),
    }) as R;
    return { result, value };
  } finally {
    open = false;
  }
}

function reader(value: () => Uint8Array | undefined): ReadFile {
  return {
    bytes: () => value()?.slice(),
    text: () => {
      const bytes = value();
      return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
    },
  };
}
