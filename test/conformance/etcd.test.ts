import { afterAll, test } from "vitest";
import { conformance } from "../../src/testing/conformance.js";
import { etcdProgram, startEtcd } from "../servers/etcd.js";
import { describeOn, findBinary } from "../servers/find.js";
import { etcdSubject } from "./etcd-subject.js";
import { vitestRunner } from "./vitest-runner.js";

const server = findBinary(etcdProgram) === undefined ? undefined : await startEtcd();
afterAll(() => server?.dispose());

describeOn(etcdProgram, "on one etcd", async () => {
  const hosts = [`127.0.0.1:${server!.port}`];
  const runner = vitestRunner(undefined, { concurrent: true });
  const together = await conformance(etcdSubject(hosts, server!, false));
  // Those that restart the server, or count what is left of a client, come afterwards.
  const alone = await conformance(etcdSubject(hosts, server!, true));
  for (const [i, { id, title, applies, run }] of together.entries()) {
    if (applies === true) runner.test(`${id}: ${title}`, run);
    else if (alone[i]!.applies !== true) runner.skip?.(`${id}: ${title}`, applies);
  }
  for (const [i, { id, title, applies, run }] of alone.entries()) {
    if (applies === true && together[i]!.applies !== true) test(`${id}: ${title}`, run);
  }
});
