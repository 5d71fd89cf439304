import { readdirSync, statSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { freePort } from "../servers/free-port.js";
import { Sandbox } from "./cli-process.js";

describe("the store of the command", () => {
  it("is a file in the user's state folder when nobody names one", async () => {
    await using box = new Sandbox();
    const state = box.file("state");
    const env = { TENURE_STORE: undefined, XDG_STATE_HOME: state };
    const ended = await box.tenure(["run", "a", "-c", "--", "echo $TENURE_STORE"], { env });
    expect(ended).toMatchObject({ code: 0, stdout: `sqlite:${state}/tenure/tenure.db\n` });
    expect(statSync(`${state}/tenure`).mode & 0o777).toBe(0o700);
    const home = { TENURE_STORE: "", XDG_STATE_HOME: "relative", HOME: box.dir };
    const inHome = await box.tenure(["run", "a", "-c", "--", "echo $TENURE_STORE"], { env: home });
    expect(inHome.stdout).toBe(`sqlite:${box.dir}/.local/state/tenure/tenure.db\n`);
  });

  it("is --store before TENURE_STORE", async () => {
    await using box = new Sandbox();
    const flags = ["--store", `sqlite:${box.file("other.db")}`];
    await box.tenure(["acquire", "a", ...flags]);
    expect(await box.show("a")).toMatchObject({ held: false });
    expect((await box.tenure(["show", "a", ...flags])).code).toBe(0);
  });

  it("that cannot be made or opened ends with 69 and says which", async () => {
    await using box = new Sandbox();
    const plain = box.write("plain", "a file, not a folder");
    const env = { TENURE_STORE: undefined, XDG_STATE_HOME: plain };
    const noFolder = await box.tenure(["run", "a", "--", "echo", "never"], { env });
    expect(noFolder).toMatchObject({ code: 69, stdout: "" });
    expect(noFolder.stderr).toContain(`${plain}/tenure`);
    expect(noFolder.stderr).toContain("--store");
    const missing = await box.tenure(["ls", "--store", `sqlite:${plain}/x/locks.db`]);
    expect(missing.code).toBe(69);
  });

  it("whose URL is no path of a file ends with 64, says so, and makes nothing", async () => {
    await using box = new Sandbox();
    for (const url of ["sqlite:", "sqlite::memory:", "sqlite:file:x", "sqlite://x", "x", ""]) {
      const ended = await box.tenure(["ls", "--store", url]);
      expect(ended, url).toMatchObject({ code: 64, stdout: "" });
      expect(ended.stderr).toContain(JSON.stringify(url.replace(/^sqlite:(?=:|file)/, "")));
    }
    expect(readdirSync(box.dir)).toEqual([]);
  });

  it("is not made by looking into it, nor by ending what it cannot hold", async () => {
    await using box = new Sandbox();
    expect(await box.tenure(["ls"])).toMatchObject({ code: 0, stdout: "" });
    expect(await box.tenure(["show", "a"])).toMatchObject({ code: 1, stdout: "a is free\n" });
    const shown = await box.tenure(["show", "a", "--json"]);
    expect(shown).toMatchObject({ code: 1, stderr: "" });
    expect(JSON.parse(shown.stdout)).toEqual({ name: "a", held: false });
    const checked = await box.tenure(["check", "a", "--token", "3"]);
    expect(checked.code).toBe(79);
    expect(checked.stderr).toContain(`no store file ${box.file("locks.db")}`);
    const lease = ["a", "--token", "3"];
    for (const args of [
      ["break", ...lease, "--reason", "gone"],
      ["release", ...lease, "--holder", "h"],
      ["renew", ...lease, "--holder", "h", "--ttl", "9s"],
    ]) {
      const ended = await box.tenure(args);
      expect(ended, args[0]).toMatchObject({ code: 79, stdout: "" });
      expect(ended.stderr, args[0]).toContain(`no store file ${box.file("locks.db")}`);
    }
    const env = { TENURE_STORE: undefined, XDG_STATE_HOME: box.file("state") };
    const unnamed = await box.tenure(["ls"], { env });
    expect(unnamed).toMatchObject({ code: 0, stdout: "", stderr: "" });
    expect(readdirSync(box.dir)).toEqual([]);
  });

  it("in memory is refused: it would keep nobody out", async () => {
    await using box = new Sandbox();
    for (const args of [["ls"], ["run", "a", "--", "true"], ["elect", "a", "--observe"]]) {
      const ended = await box.tenure(args, { env: { TENURE_STORE: "memory:" } });
      expect(ended).toMatchObject({ code: 64, stdout: "" });
      expect(ended.stderr).toContain("memory:");
    }
  });

  it("that is corrupt ends with 69 and names the file", async () => {
    await using box = new Sandbox();
    const file = box.write("bad.db", "this is no database at all ".repeat(100));
    const flags = ["--store", `sqlite:${file}`];
    const run = ["run", "a", ...flags, "--", "echo", "never"];
    for (const args of [["ls", ...flags], ["acquire", "a", ...flags], run]) {
      const ended = await box.tenure(args);
      expect(ended).toMatchObject({ code: 69, stdout: "" });
      expect(ended.stderr).toContain(file);
    }
  });

  it("that is down lets the command run only with --on-unavailable proceed", async () => {
    await using box = new Sandbox();
    const flags = ["--store", `redis://127.0.0.1:${await freePort()}`];
    const shell = ["-c", "--", "echo token=$TENURE_TOKEN name=$TENURE_NAME; exit 4"];
    expect((await box.tenure(["run", "a", ...flags, ...shell])).code).toBe(69);
    const env = { TENURE_TOKEN: "1", TENURE_HOLDER: "outer" };
    const proceed = ["--on-unavailable", "proceed"];
    const ended = await box.tenure(["run", "a", ...flags, ...proceed, ...shell], { env });
    expect(ended).toMatchObject({ code: 4, stdout: "token= name=a\n" });
    expect(ended.stderr).toContain("without a lease");
    // What is no store is not one that is down.
    writeFileSync(box.file("text.db"), "no database");
    const wrong = ["--store", `sqlite:${box.file("text.db")}`, ...proceed];
    expect(await box.tenure(["run", "a", ...wrong, ...shell])).toMatchObject({ code: 69, stdout: "" });
  });

  it("does not repeat a password", async () => {
    await using box = new Sandbox();
    const ended = await box.tenure(["ls", "--store", "redis-x://user:secret@host/0"]);
    expect(ended.code).toBe(64);
    expect(ended.stderr).not.toContain("secret");
  });
});
