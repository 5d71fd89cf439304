import { afterAll } from "vitest";
import { consul } from "../../src/backends/consul/open.js";
import { runConformance } from "../../src/testing/conformance.js";
import { consulProgram, leaderAmong, startConsulCluster } from "../servers/consul.js";
import { describeOptional, findBinary } from "../servers/find.js";
import { consulSubject } from "./consul-subject.js";
import { vitestRunner } from "./vitest-runner.js";

const servers = findBinary(consulProgram) === undefined ? [] : await startConsulCluster();
afterAll(() => Promise.all(servers.map((server) => server.dispose())));

describeOptional(consulProgram, "on three servers, through a follower", async () => {
  const leader = await leaderAmong(servers);
  const follower = servers.find((server) => server !== leader);
  const runner = vitestRunner("consul", { concurrent: true });
  await runConformance(consulSubject(follower!, false), {
    ...runner,
    // These servers take shorter TTLs than others do.
    begin: (manifest) => {
      runner.begin?.({ ...manifest, minTtlMs: consul(follower!.url).manifest.minTtlMs });
    },
  });
});
