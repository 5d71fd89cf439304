// A Kafka broker from its published Maven artifacts, where there are Maven and Java 17, into a
// folder that outlives this one. Without them, or when that fails, its suites are skipped.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import path from "node:path";

/** The same as in test/servers. */
const version = "4.3.1";
const cache = path.join(homedir(), ".cache/tenure-servers");
const binary = path.join(cache, `kafka-${version}`);

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>servers.invalid</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>${version}</version>
    </dependency>
  </dependencies>
</project>
`;

/** Runs a class of Kafka's: the options of the machine, the class, its arguments. */
const PROGRAM = `#!/bin/sh
exec java -cp "$0-jars/*" "$@"
`;

/** Fetches it if it is not there yet: some seconds, once. */
export function provideKafka() {
  const maven = find("mvn");
  if (existsSync(binary) || maven === undefined || find("java") === undefined) return;
  console.log(`fetching Kafka ${version} with Maven`);
  const folder = mkdtempSync(path.join(tmpdir(), "tenure-kafka-"));
  mkdirSync(cache, { recursive: true });
  const jars = `${binary}-jars`;
  const beside = `${jars}.${process.pid}`;
  try {
    writeFileSync(path.join(folder, "pom.xml"), POM);
    const goal = ["dependency:copy-dependencies", `-DoutputDirectory=${beside}`];
    const { status } = spawnSync(maven, ["-q", "-B", ...goal, "-DincludeScope=runtime"], {
      cwd: folder,
      stdio: ["ignore", "ignore", "inherit"],
    });
    if (status !== 0) {
      console.log("Kafka could not be fetched; its suites are skipped");
      return;
    }
    rmSync(jars, { recursive: true, force: true });
    renameSync(beside, jars);
    // Last: only the program says that all is there.
    writeFileSync(`${binary}.${process.pid}`, PROGRAM, { mode: 0o755 });
    renameSync(`${binary}.${process.pid}`, binary);
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(beside, { recursive: true, force: true });
  }
}

function find(program) {
  const folders = (process.env.PATH ?? "").split(path.delimiter);
  return folders.map((folder) => path.join(folder, program)).find((file) => existsSync(file));
}
