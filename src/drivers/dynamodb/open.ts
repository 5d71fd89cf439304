/** Clients by URL or around a caller's. The only file that loads the client library. */
import { ArgumentTypeError } from "../../core/errors.js";
import type { Runtime } from "../../core/runtime.js";
import type { DynamoAddress } from "./address.js";
import { DynamoClient, type Commands } from "./client.js";
import type { DynamoSender } from "./contract.js";
import { MissingLibraryError } from "../missing-library.js";

const INSTALL_LINE = "npm install @aws-sdk/client-dynamodb";

/** A lost answer must end in time for another attempt before a deadline. */
const ATTEMPT = { connectionTimeout: 1_000, requestTimeout: 2_000, throwOnRequestTimeout: true };
const ATTEMPTS = 3;

type Outside = Pick<Runtime, "timers" | "random">;

/** A client, and how to end what it opened. */
export interface OpenedDynamo {
  readonly client: DynamoClient;
  close(): void;
}

/** A client of our own for the place of a table. The library is loaded by its first request. */
export function openDynamo(address: DynamoAddress, { timers, random }: Outside): OpenedDynamo {
  const { region, endpoint } = address;
  let sender: DynamoSender | undefined;
  const make = async (): Promise<DynamoSender> => {
    const { DynamoDBClient } = await load();
    sender ??= new DynamoDBClient({
      ...(region === undefined ? {} : { region }),
      ...(endpoint === undefined ? {} : { endpoint }),
      requestHandler: ATTEMPT,
      maxAttempts: ATTEMPTS,
    });
    return sender;
  };
  return {
    client: new DynamoClient({ sender: make, commands: load, timers, random }),
    close: () => sender?.destroy?.(),
  };
}

/** A client around a caller's. @throws TypeError for what is no client. */
export function adoptDynamo(
  client: DynamoSender,
  { timers, random }: Outside,
  option = "client",
): DynamoClient {
  const given: unknown = client;
  const { send } = (typeof given === "object" && given !== null ? given : {}) as Partial<
    Record<"send", unknown>
  >;
  if (typeof send !== "function") {
    throw new ArgumentTypeError(option, given, "a DynamoDBClient of @aws-sdk/client-dynamodb");
  }
  return new DynamoClient({ sender: async () => client, commands: load, timers, random });
}

/** The part of the library that we use. */
interface Library extends Commands {
  readonly DynamoDBClient: new (config: object) => DynamoSender;
}

async function load(): Promise<Library> {
  try {
    return await import("@aws-sdk/client-dynamodb");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    const what = "DynamoDB needs the client library";
    throw new MissingLibraryError(what, INSTALL_LINE, { backend: "dynamodb" });
  }
}
