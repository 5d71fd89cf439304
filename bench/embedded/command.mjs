/** A whole command under a lease, from its start to its end. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inTurns, median, printTable, ratio } from "../figures.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const tenureCommand = join(root, "dist/bin/tenure.js");

function time(file, args) {
  const start = performance.now();
  const { status, error } = spawnSync(file, args, { cwd: root, stdio: "ignore" });
  if (status !== 0) throw error ?? new Error(`${file} ${args.join(" ")} ended with ${status}`);
  return performance.now() - start;
}

const script = (body) => ["--no-warnings", "--input-type=module", "-e", body];

export async function command(folder, isQuick) {
  const store = `sqlite:${join(folder, "command.db")}`;
  const lease = `import { connect } from "tenure";
    const tenure = await connect(${JSON.stringify(store)});
    await tenure.hold("x", async () => undefined); await tenure.close();`;
  const node = (...args) => () => time(process.execPath, args);
  const subjects = {
    "`true`": () => time("true", []),
    "`flock FILE true`": () => time("flock", [join(folder, "flock"), "true"]),
    "`node -e 0`": node("-e", "0"),
    "`tenure --version`": node(tenureCommand, "--version"),
    "`tenure run NAME -- true`": node(tenureCommand, "run", "x", "--store", store, "--", "true"),
    "`node` with an empty module": node(...script("")),
    '`node` with `import("tenure")`': node(...script('await import("tenure");')),
    "`node` with `connect`, `hold`, `close`": node(...script(lease)),
  };
  const took = await inTurns(subjects, isQuick ? 8 : 30);
  printTable(
    ["", "ms", "× `node -e 0`", "× `flock FILE true`"],
    [...took].map(([name, values]) => [
      name,
      median(values).toFixed(1),
      ...["`node -e 0`", "`flock FILE true`"].map((base) =>
        ratio(values, took.get(base)).toFixed(2),
      ),
    ]),
  );
}
