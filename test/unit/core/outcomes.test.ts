import { describe, expect, it } from "vitest";
import { OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import { present, rig } from "./rig.js";

describe("what the store leaves open", () => {
  it("of a renewal is told to whoever asked for it, and nothing was prolonged", async () => {
    const { sim, a, hooks } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000, renew: false }));
    await sim.advance(1000);
    const left = lease.remaining();
    hooks.renew = () => ["unknown"];
    await expect(lease.renew()).rejects.toBeInstanceOf(OutcomeUnknownError);
    hooks.renew = () => ["unavailable"];
    await expect(lease.renew()).rejects.toBeInstanceOf(UnavailableError);
    const own = new UnavailableError("down", { retryable: false });
    hooks.renew = () => Promise.reject(own);
    await expect(lease.renew()).rejects.toBe(own);
    expect(lease.remaining()).toBe(left);
    expect(lease.state).toBe("unknown");
  });

  it("of a release is told, and another try asks the store", async () => {
    const { a, b, hooks } = await rig();
    const lease = present(await a.tryAcquire("x"));
    hooks.release = () => ["unknown"];
    await expect(lease.release()).rejects.toBeInstanceOf(OutcomeUnknownError);
    delete hooks.release;
    expect(await lease.release()).toBe("released");
    expect(await b.inspect("x")).toBeNull();
  });

  it("of a release is tried once more when the tenure is closed", async () => {
    const { a, b, hooks } = await rig();
    const lease = present(await a.tryAcquire("x"));
    hooks.release = () => ["unknown"];
    await expect(lease.release()).rejects.toBeInstanceOf(OutcomeUnknownError);
    delete hooks.release;
    await a.close();
    expect(await b.inspect("x")).toBeNull();
  });

  it("of an adoption makes no lease", async () => {
    const { a, b, hooks } = await rig();
    const detached = b.detach(present(await b.tryAcquire("x")));
    hooks.renew = () => ["unknown"];
    await expect(a.adopt(detached)).rejects.toBeInstanceOf(OutcomeUnknownError);
    hooks.renew = () => ["unavailable"];
    await expect(a.adopt(detached)).rejects.toBeInstanceOf(UnavailableError);
    delete hooks.renew;
    expect((await a.adopt(detached)).state).toBe("held");
  });

  it("is all that an error of an unknown kind says: a grant behind it is given back", async () => {
    const { sim, a, b, hooks } = await rig();
    hooks.acquire = async (next) => {
      await next();
      throw new Error("socket hang up");
    };
    await expect(a.tryAcquire("x")).rejects.toBeInstanceOf(OutcomeUnknownError);
    await sim.settle();
    expect(await b.tryAcquire("x")).not.toBeNull();
  });
});

it("a release names holder and token, here and after a hand-over: the store compares both", async () => {
  const { a, hooks } = await rig();
  const lease = present(await a.tryAcquire("x"));
  const other = a.detach(present(await a.tryAcquire("y")));
  const asked: unknown[] = [];
  hooks.release = (next, requests) => {
    asked.push(...requests);
    return next();
  };
  await lease.release();
  await a.giveBack(other);
  const { name, holder, token } = lease;
  expect(asked).toEqual([{ name, holder, token }, other]);
});
