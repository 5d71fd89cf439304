/** Kafka's client library is an optional peer: without it the error says how to get it. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { buildSync } from "esbuild";
import { expect, it, onTestFinished } from "vitest";

it("says how to install Kafka's client library where it is missing", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "tenure-kafka-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const outfile = path.join(folder, "alone.mjs");
  const entry = path.join(import.meta.dirname, "../../../src/partitions/kafka/open.ts");
  const external = ["@platformatic/kafka"];
  buildSync({ entryPoints: [entry], outfile, bundle: true, format: "esm", platform: "node", external });
  const url = pathToFileURL(outfile).href;
  const program = `import { kafkaPartitions } from ${JSON.stringify(url)};
    const error = await kafkaPartitions({}, {}).then(() => null, (e) => e);
    console.log(JSON.stringify([error?.name, error?.retryable, error?.install, error?.message]));`;
  const args = ["--input-type=module", "--eval", program];
  const settings = { cwd: folder, encoding: "utf8", timeout: 60_000 } as const;
  const said = execFileSync(process.execPath, args, settings);
  const install = "npm install @platformatic/kafka@1";
  expect(JSON.parse(said)).toEqual([
    "UnavailableError",
    false,
    install,
    `a Kafka group needs the client library: ${install}`,
  ]);
});
