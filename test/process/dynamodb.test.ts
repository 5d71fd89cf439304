import { afterAll, beforeAll, expect, it } from "vitest";
import { readyTable } from "../conformance/dynamodb-subject.js";
import { dynaliteProgram, startDynamodb, type DynamodbServer } from "../servers/dynamodb.js";
import { describeOn } from "../servers/find.js";
import { Sandbox } from "./cli-process.js";

/** Credentials as any machine of Amazon has them. */
const AWS = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" };

describeOn(dynaliteProgram, "tenure on dynamodb", () => {
  let server: DynamodbServer;
  let env: Readonly<Record<string, string>>;
  beforeAll(async () => {
    server = await startDynamodb(dynaliteProgram);
    env = { ...AWS, TENURE_STORE: server.urlOf(await readyTable(server)) };
  });
  afterAll(() => server.dispose());

  it("run -n is let in once a dead holder's time is over, though it never waits", async () => {
    await using box = new Sandbox();
    const run = ["run", "nightly", "--ttl", "3s"];
    // Nobody renews it, and nobody gives it back.
    const dead = await box.tenure(["acquire", "nightly", "--ttl", "3s", "--json"], { env });
    const { token } = JSON.parse(dead.stdout) as { readonly token: string };
    const codes: (number | null)[] = [];
    while (codes.at(-1) !== 0) {
      const tried = await box.tenure([...run, "-n", "--", "sh", "-c", "echo $TENURE_TOKEN"], { env });
      codes.push(tried.code);
      expect([0, 75], tried.stderr).toContain(tried.code);
      if (tried.code === 0) expect(BigInt(tried.stdout.trim())).toBe(BigInt(token) + 1n);
    }
    expect(codes[0]).toBe(75);
  });

  it("tells that the table is missing", async () => {
    await using box = new Sandbox();
    const store = server.urlOf("nowhere");
    const ended = await box.tenure(["ls", "--store", store], { env });
    expect(ended.code).toBe(69);
    expect(ended.stderr).toMatch(/no such table.*tenure migrate --print/);
  });
});
