import { toToken, type TokenBearer } from "../../src/core/token.js";

let grants = 0;

/** A lease as a fence sees it; each has a holder of its own. */
export function bearer(token: bigint | number, more: Partial<TokenBearer> = {}): TokenBearer {
  grants += 1;
  return {
    name: "acct:7",
    storeId: "store-1",
    holder: `holder-${grants}`,
    token: toToken(BigInt(token)),
    ...more,
  };
}
