import { toToken } from "../../../src/core/token.js";
import { change, countersOf, declare, type Mutant } from "./mutant.js";

/** Tokens that repeat, go back, move, are missing or made up. */
export const tokenMutants: readonly Mutant[] = [
  {
    title: "the counter is in the record that a release deletes",
    caught: "token-after-release",
    wrap: (backend) => {
      const counted = countersOf(backend).over(backend);
      return change(counted, {
        release: async (requests, call) => {
          const outcomes = await counted.release(requests, call);
          for (const { name } of requests) countersOf(backend).forget(name);
          return outcomes;
        },
      });
    },
  },
  {
    title: "the counter goes when an expired record is found",
    caught: "token-after-expiry",
    wrap: (backend) => {
      const counted = countersOf(backend).over(backend);
      return change(counted, {
        acquire: async (request, call) => {
          const shown = await backend.inspect(request.name, call);
          if (shown === null) countersOf(backend).forget(request.name);
          return counted.acquire(request, call);
        },
      });
    },
  },
  {
    title: "a break deletes the counter",
    caught: "token-after-break",
    wrap: (backend) => {
      const counted = countersOf(backend).over(backend);
      return change(counted, {
        break: async (name, token, call) => {
          const ended = await counted.break(name, token, call);
          countersOf(backend).forget(name);
          return ended;
        },
      });
    },
  },
  {
    title: "the counter goes with a record that somebody deletes",
    caught: "token-after-deletion",
    wrap: (backend) => countersOf(backend).over(backend),
    afterDeletion: (storeId, name) => countersOf({ storeId }).forget(name),
  },
  {
    title: "the sweep deletes counters",
    caught: "token-after-sweep",
    wrap: (backend) => countersOf(backend).over(backend),
    afterSweep: (storeId) => countersOf({ storeId }).forgetAll(),
  },
  {
    title: "a restart begins to count anew",
    caught: "token-after-restart",
    restarts: () => ({ storeId: "same", firstToken: 1n }),
  },
  {
    title: "a restart makes another storeId",
    caught: "store-id-restart",
    restarts: (nth) => ({ storeId: `store-${nth}` }),
  },
  {
    title: "tokens pass through a double",
    caught: "token-beyond-double",
    wrap: (backend) =>
      change(backend, {
        acquire: async (request, call) => {
          const answer = await backend.acquire(request, call);
          if ("held" in answer) return answer;
          const token = toToken(BigInt(Number(answer.grant.token)));
          return { grant: { ...answer.grant, token } };
        },
      }),
  },
  {
    title: "a renewal takes a new token",
    caught: "renew-keeps-token",
    wrap: (backend) =>
      change(backend, {
        renew: (grants, call) =>
          Promise.all(
            grants.map(async (grant) => {
              await backend.release([{ name: grant.name, holder: grant.holder }], call);
              const { name, holder, ttlMs } = grant;
              await backend.acquire({ name, holder, ttlMs }, call);
              return "renewed" as const;
            }),
          ),
      }),
  },
  {
    title: "tokens are declared and not given",
    caught: "token-present",
    wrap: (backend) =>
      change(backend, {
        acquire: async (request, call) => {
          const answer = await backend.acquire(request, call);
          return "held" in answer ? answer : { grant: { ...answer.grant, token: undefined } };
        },
      }),
  },
  {
    title: "tokens are given and not declared",
    caught: "token-absent",
    wrap: (backend) => declare(backend, { tokens: "none" }),
  },
];
