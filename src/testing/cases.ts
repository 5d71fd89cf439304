import type { ConformanceCase } from "./case.js";
import { acquireCases } from "./cases/acquire.js";
import { heldCheckCases } from "./cases/held-check.js";
import { lifetimeCases } from "./cases/lifetime.js";
import { manifestCases } from "./cases/manifest.js";
import { namesCases } from "./cases/names.js";
import { notifyCases } from "./cases/notify.js";
import { queueCases } from "./cases/queue.js";
import { releaseCases } from "./cases/release.js";
import { renewalCases } from "./cases/renewal.js";
import { tenureOwnershipCases } from "./cases/tenure-ownership.js";
import { tenureWaitingCases } from "./cases/tenure-waiting.js";
import { tokenOrderCases } from "./cases/token-order.js";
import { ttlCases } from "./cases/ttl.js";

/** Every case, the heart first. */
export const allCases: readonly ConformanceCase[] = [
  ...manifestCases,
  ...tokenOrderCases,
  ...acquireCases,
  ...renewalCases,
  ...releaseCases,
  ...ttlCases,
  ...namesCases,
  ...queueCases,
  ...notifyCases,
  ...heldCheckCases,
  ...lifetimeCases,
  ...tenureWaitingCases,
  ...tenureOwnershipCases,
];
