// Work that asks a slow model, outside of any lock: read the version, ask, and write only if nobody
// has written since. Whoever loses asks again, with the newer text.
//   node slow-model.mjs notes.db
import { cas } from "tenure/cas";

const notes = await cas(`sqlite:${process.argv[2] ?? "notes.db"}`);
await notes.write("summary", { words: 0 }, { version: null });

/** Takes its time, and dies now and then; nobody waits for it. */
async function askModel(words: number): Promise<number> {
  await new Promise((next) => setTimeout(next, 20));
  return words + 1;
}

const updates = await Promise.all(
  Array.from({ length: 5 }, () =>
    notes.update<{ words: number }>(
      "summary",
      async (before) => ({ words: await askModel(before?.words ?? 0) }),
      { attempts: Infinity },
    ),
  ),
);
const { value } = (await notes.read<{ words: number }>("summary"))!;
const asked = updates.reduce((sum, { attempts }) => sum + attempts, 0);
console.log(`${value.words} updates, none lost; the model was asked ${asked >= 5 ? "again" : ""}`);
await notes.close();
