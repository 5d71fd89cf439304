/** Compare-and-swap in a SQL database. */
import { jsonText } from "../core/json.js";
import { checkName } from "../core/names.js";
import { afterwards, type Run, type Script } from "../sql/script.js";
import type { Dialect } from "../sql/statement.js";
import type { CallersTx, SqlStore } from "../sql/store.js";
import { checkVersion } from "./arguments.js";
import type { CasCalls, SqlCas } from "./contract.js";
import { conflict } from "./errors.js";
import { rowsOf } from "./rows.js";
import * as scripts from "./scripts.js";
import { casOver, type UpdateRuntime } from "./updating.js";

/** What is needed beside the store. */
export interface SqlCasParts {
  readonly maxBytes: number;
  readonly runtime: UpdateRuntime;
}

const READ = "read a value";
const WRITE = "write a value";

/** Values in an opened store. */
export function sqlCas<K extends Dialect>(
  store: SqlStore<K>,
  { maxBytes, runtime }: SqlCasParts,
): SqlCas<K> {
  const { dialect } = store;
  const within = (tx: CallersTx<K>): CasCalls<"promised"> => {
    const run = store.within(tx) as unknown as Run<"promised">;
    return {
      read: (key) => {
        const seen = run(READ, () => scripts.read(checkName(key, "key")));
        return afterwards(
          seen,
          (found) => found && { value: JSON.parse(found.value) as unknown, version: found.version },
        ) as Promise<never>;
      },
      write: (key, value, options) =>
        run(WRITE, () => {
          const text = jsonText(value, "value", maxBytes);
          return writeOrThrow(checkName(key, "key"), text, checkVersion(options), dialect);
        }),
    };
  };
  return {
    ...casOver({
      backend: dialect,
      maxBytes,
      runtime,
      read: (key) => store.run(READ, () => scripts.read(key)),
      write: (key, text, version) => store.run(WRITE, () => scripts.write(key, text, version)),
      close: () => store.close(),
    }),
    within: (tx) => within(tx) as unknown as CasCalls<K>,
    row: (table) => rowsOf(store, table, runtime),
  };
}

function* writeOrThrow(
  key: string,
  text: string,
  version: bigint | null,
  backend: string,
): Script<bigint> {
  const written = yield* scripts.write(key, text, version);
  if (written.isWritten) return written.version;
  throw conflict(key, written.version, 1, backend);
}
