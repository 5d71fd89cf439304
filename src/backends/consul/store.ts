import { UnavailableError } from "../../core/errors.js";
import type { Random } from "../../core/random.js";
import type { Client, During } from "./client.js";

/** The id of the store: the first client makes it, all others read it. */
export async function provideStoreId(
  client: Client,
  key: string,
  random: Random,
  call: During,
): Promise<string> {
  const [before] = await client.read([key], call);
  if (before === undefined) {
    // Refused when another client was faster: its id is the one.
    const value = random.id();
    await client.txn(
      [
        { verb: "check-not-exists", key },
        { verb: "set", key, value },
      ],
      call,
    );
  }
  const [entry] = before === undefined ? await client.read([key], call) : [before];
  const id = new TextDecoder().decode(entry?.value);
  if (/^[A-Za-z0-9_-]{1,64}$/.test(id)) return id;
  throw new UnavailableError(`cannot ${call.during}: ${key} holds something that is no store id`, {
    backend: "consul",
    retryable: false,
  });
}
