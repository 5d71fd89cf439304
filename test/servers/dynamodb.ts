import { homedir } from "node:os";
import path from "node:path";
import {
  CreateTableCommand,
  DynamoDBClient,
  ListTablesCommand,
  type CreateTableCommandInput,
} from "@aws-sdk/client-dynamodb";
import { tableDefinition } from "../../src/backends/dynamodb/table.js";
import type { Program } from "./find.js";
import { ServerProcess } from "./server.js";

/** DynamoDB's interface over LevelDB: durable, and without transactions. */
export const dynaliteProgram: Program = {
  name: "dynalite",
  binary: "dynalite",
  package: "none; npm ci",
  folders: [path.resolve(import.meta.dirname, "../../node_modules/.bin")],
};

/** moto's DynamoDB, in memory and with transactions, which `node scripts/servers.mjs` installs. */
export const motoProgram: Program = {
  name: "moto",
  binary: "tenure-moto",
  package: "python3-venv; then: node scripts/servers.mjs",
  folders: [path.join(homedir(), ".cache/tenure-servers/moto-5.2.5/bin")],
};

/** Any will do for these servers. */
const CREDENTIALS = { accessKeyId: "test", secretAccessKey: "test" };
const REGION = "eu-west-1";

type Given = NonNullable<ConstructorParameters<typeof DynamoDBClient>[0]>;

/** A server that speaks as DynamoDB does, with tables of its own. */
export class DynamodbServer extends ServerProcess {
  #tables = 0;

  constructor(program: Program) {
    super({
      ...program,
      args: (port, folder) =>
        program === motoProgram
          ? [String(port)]
          : ["--host", "127.0.0.1", "--port", String(port), "--path", path.join(folder, "data")],
      url: (port) => `http://127.0.0.1:${port}`,
      isReady: async (port) => {
        const client = clientAt(port);
        try {
          await client.send(new ListTablesCommand({}));
          return true;
        } finally {
          client.destroy();
        }
      },
    });
  }

  /** A client of this server; somebody has to destroy it. */
  client(settings: Given = {}): DynamoDBClient {
    return clientAt(this.port, settings);
  }

  /** Where `connect` finds a table of this server; credentials are to come from elsewhere. */
  urlOf(table: string): string {
    return `dynamodb://${table}?region=${REGION}&endpoint=${encodeURIComponent(this.url)}`;
  }

  /** A new table for leases and marks, or with other keys. */
  async makeTable(other: Partial<CreateTableCommandInput> = {}): Promise<string> {
    const table = `tenure-${process.pid}-${++this.#tables}`;
    const client = this.client();
    const definition = JSON.parse(tableDefinition({ table })) as CreateTableCommandInput;
    // dynalite does not know it.
    delete definition.DeletionProtectionEnabled;
    try {
      await client.send(new CreateTableCommand({ ...definition, ...other }));
      return table;
    } finally {
      client.destroy();
    }
  }
}

function clientAt(port: number, settings: Given = {}): DynamoDBClient {
  return new DynamoDBClient({
    endpoint: `http://127.0.0.1:${port}`,
    region: REGION,
    credentials: CREDENTIALS,
    ...settings,
  });
}

/** A started server of its own. */
export async function startDynamodb(program: Program): Promise<DynamodbServer> {
  const server = new DynamodbServer(program);
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.dispose();
    throw error;
  }
}
