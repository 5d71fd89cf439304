// moto's DynamoDB, which knows transactions, from its published Python packages, in a folder that
// outlives this one. One request at a time: moto itself keeps no two apart.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";

const version = "5.2.5";
const packages = [`moto[dynamodb]==${version}`, "flask", "flask-cors"];

/** The same names as in test/servers. */
const folder = path.join(homedir(), `.cache/tenure-servers/moto-${version}`);
const binary = path.join(folder, "bin", "tenure-moto");

const PROGRAM = `
import sys, threading
from werkzeug.serving import run_simple
from moto.server import DomainDispatcherApplication, create_backend_app

app = DomainDispatcherApplication(create_backend_app)
turn = threading.Lock()

def one_at_a_time(environ, start_response):
    with turn:
        return [b"".join(app(environ, start_response))]

run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True)
`;

/** Whether it is there. */
export function hasMoto() {
  return existsSync(binary);
}

/** Installs it if it is not there yet: less than a minute, once. */
export function provideMoto() {
  if (hasMoto()) return;
  const run = (program, ...args) =>
    spawnSync(program, args, { stdio: ["ignore", "ignore", "inherit"] }).status === 0;
  // Only the program at the end says that all is there.
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(path.dirname(folder), { recursive: true });
  console.log(`installing with pip: ${packages.join(" ")}`);
  const python = path.join(folder, "bin", "python3");
  const isMade =
    run("python3", "-m", "venv", folder) &&
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", ...packages);
  if (!isMade) {
    rmSync(folder, { recursive: true, force: true });
    console.log("moto could not be installed");
    return;
  }
  writeFileSync(`${binary}.new`, `#!${python}${PROGRAM}`, { mode: 0o755 });
  renameSync(`${binary}.new`, binary);
}
