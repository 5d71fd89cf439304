import { afterAll } from "vitest";
import { runConformance } from "../../src/testing/conformance.js";
import { newEtcdProgram, startEtcd } from "../servers/etcd.js";
import { describeOptional, findBinary } from "../servers/find.js";
import { etcdSubject } from "./etcd-subject.js";
import { vitestRunner } from "./vitest-runner.js";

const server =
  findBinary(newEtcdProgram) === undefined ? undefined : await startEtcd({}, newEtcdProgram);
afterAll(() => server?.dispose());

describeOptional(newEtcdProgram, "on a version of today", async () => {
  const subject = etcdSubject([`127.0.0.1:${server!.port}`], server!, false);
  await runConformance(subject, vitestRunner(undefined, { concurrent: true }));
});
