import { afterAll } from "vitest";
import { runConformance } from "../../src/testing/conformance.js";
import { etcdProgram, startEtcdCluster } from "../servers/etcd.js";
import { describeOn, findBinary } from "../servers/find.js";
import { etcdSubject } from "./etcd-subject.js";
import { vitestRunner } from "./vitest-runner.js";

const cluster = findBinary(etcdProgram) === undefined ? undefined : await startEtcdCluster();
afterAll(() => cluster?.dispose());

describeOn(etcdProgram, "on three members", async () => {
  const subject = etcdSubject(cluster!.hosts, cluster!.members[1]!, false);
  await runConformance(subject, vitestRunner("etcd", { concurrent: true }));
});
