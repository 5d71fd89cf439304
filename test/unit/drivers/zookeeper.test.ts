import { describe, expect, it } from "vitest";
import type { ZkSession } from "../../../src/backends/zookeeper/client.js";
import { readLine } from "../../../src/backends/zookeeper/line.js";
import {
  contenders,
  contenderPrefix,
  decodeName,
  encodeName,
} from "../../../src/backends/zookeeper/names.js";
import { ZookeeperReplyError } from "../../../src/drivers/zookeeper/errors.js";
import { parseEnsemble } from "../../../src/drivers/zookeeper/hosts.js";
import { Frames, JuteReader, JuteWriter } from "../../../src/drivers/zookeeper/jute.js";
import { multi } from "../../../src/drivers/zookeeper/operations.js";

describe("jute", () => {
  it("reads what it wrote, with 64-bit integers exact", () => {
    const longs = [0n, -1n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)];
    const writer = new JuteWriter()
      .int(-2_147_483_648)
      .bool(true)
      .text("é\u0000")
      .buffer(Buffer.from([0, 255]));
    for (const long of longs) writer.long(long);
    const frame = writer.frame();
    const reader = new JuteReader(frame.subarray(4));
    expect(frame.readInt32BE()).toBe(frame.length - 4);
    expect([reader.int(), reader.bool(), reader.text()]).toEqual([-2_147_483_648, true, "é\u0000"]);
    expect([...reader.buffer()]).toEqual([0, 255]);
    expect(longs.map(() => reader.long())).toEqual(longs);
    expect(reader.left).toBe(0);
  });

  it("takes a length below zero for nothing, and refuses a record that ends too soon", () => {
    const reader = new JuteReader(new JuteWriter().int(-1).int(3).frame().subarray(4));
    expect(reader.buffer()).toHaveLength(0);
    expect(() => reader.text()).toThrow(RangeError);
  });

  it("cuts frames out of a stream, whatever pieces it comes in", () => {
    const texts = ["", "a", "b".repeat(300)];
    const stream = Buffer.concat(texts.map((text) => new JuteWriter().text(text).frame()));
    for (const size of [1, 3, 7, 64, stream.length]) {
      const frames = new Frames();
      const seen: string[] = [];
      for (let from = 0; from < stream.length; from += size) {
        for (const frame of frames.push(stream.subarray(from, from + size))) {
          seen.push(new JuteReader(frame).text());
        }
      }
      expect(seen).toEqual(texts);
    }
  });

  it("refuses a stream that is not of this protocol", () => {
    expect(() => [...new Frames().push(Buffer.from("HTTP/1.1 400 Bad Request"))]).toThrow(
      RangeError,
    );
  });

  it("says which change of a transaction was refused", () => {
    const answer = new JuteWriter();
    for (const code of [0, -103, -2]) answer.int(-1).bool(false).int(code).int(code);
    const frame = answer.int(-1).bool(true).int(-1).frame();
    const read = (): unknown => multi([]).read(new JuteReader(frame.subarray(4)));
    expect(read).toThrow(ZookeeperReplyError);
    expect(read).toThrow(expect.objectContaining({ code: -103, place: 1 }));
  });
});

describe("hosts of an ensemble", () => {
  it("are read from a URL, from ZooKeeper's own form, and from a list", () => {
    const two = [
      { host: "h1", port: 2181 },
      { host: "::1", port: 2182 },
    ];
    expect(parseEnsemble("zookeeper://h1,[::1]:2182/a/b/")).toEqual({
      addresses: two,
      chroot: "/a/b",
    });
    expect(parseEnsemble("h1,[::1]:2182")).toEqual({ addresses: two, chroot: "" });
    expect(parseEnsemble(["h1:2181", "[::1]:2182"])).toEqual({ addresses: two, chroot: "" });
    expect(parseEnsemble("zookeeper://a%40b:p%3A%2F@h1").credentials).toEqual({
      user: "a@b",
      password: "p:/",
    });
  });

  it.each([
    ...["", "zookeeper://", "redis://h1", "h1:0", "h1:65536", "h1:x", "h1,,h2", "h1/a//b"],
    ...["h1/../a", "h1 h2", "u:p%zz@h1", ":p@h1", "h1?x=1", [], ["h1/a"], 7, null],
  ])("are refused: %j", (given) => {
    const parse = (): unknown => parseEnsemble(given as string);
    expect(parse).toThrow(TypeError);
    expect(parse).toThrow(/^hosts must be "host:port/);
  });

  it("are not repeated in the error: there may be a password", () => {
    expect(() => parseEnsemble("zookeeper://me:secret@h1:port")).not.toThrow(/secret/);
    expect(() => parseEnsemble("zookeeper://me:secret@h1:port")).toThrow(/got "zookeeper:\/\/…"$/);
    expect(() => parseEnsemble(["me:secret@h1"])).toThrow(/got "…"$/);
  });
});

describe("names of nodes", () => {
  it.each([
    "a",
    "a/b",
    ".",
    "..",
    ".a",
    "é",
    "e\u0301",
    "%",
    "~",
    "a\nb",
    "😀",
    "\uffff",
    "x".repeat(512),
  ])("stand for %j and nothing else", (name) => {
    const folder = encodeName(name);
    expect(folder).toMatch(/^(?!\.)[\x21-\x7e]+$/);
    expect(folder).not.toContain("/");
    expect(decodeName(folder)).toBe(name);
    const [own] = contenders([`${contenderPrefix(name, "ff00")}0000000007`]);
    expect(own).toMatchObject({ holder: name, session: "ff00", sequence: 7 });
  });

  it("of strangers are left out", () => {
    expect(decodeName("%2e")).toBeUndefined();
    expect(decodeName("%")).toBeUndefined();
    const strangers = ["", "lock-0000000001", "a~b", "a~ff~1", "a~zz~0000000001", "~ff~0000000001"];
    expect(contenders(strangers)).toEqual([]);
  });

  it("are in the order of their digits", () => {
    const nodes = ["a~1~0000000009", "b~1~0000000010", "c~1~0999999999", "d~1~1000000000"];
    expect(contenders([...nodes].reverse()).map(({ node }) => node)).toEqual(nodes);
  });

  it("at the end of the counter are in the order of their making (case 40)", async () => {
    const czxids = { "a~1~2147483646": 5n, "b~1~2147483647": 6n, "c~1~2147483647": 8n };
    const line = { ...czxids, "d~1~-2147483648": 7n, "e~1~2147483647": undefined };
    const session = {
      children: async () => Object.keys(line).reverse(),
      nodes: async (paths: readonly string[]) =>
        paths.map((path) => {
          const czxid = line[path.slice("/f/".length) as keyof typeof line];
          return czxid === undefined ? undefined : { data: Buffer.alloc(0), stat: { czxid } };
        }),
    };
    const call = { signal: new AbortController().signal, timeoutMs: 1_000 };
    const read = await readLine(session as unknown as ZkSession, "/f", call, true);
    expect(read.map(({ holder }) => holder).join("")).toBe("abdc");
  });
});
