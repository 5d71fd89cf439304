import { chromium, type Browser } from "playwright-core";
import { mustFind, type Program } from "./find.js";

/** What tests of pages need. */
export const chromiumProgram: Program = {
  name: "Chromium",
  binary: "chromium",
  package: "chromium",
};

/** A browser without a window. Root has no sandbox, and the pages are our own. */
export function startChromium(): Promise<Browser> {
  return chromium.launch({
    executablePath: mustFind(chromiumProgram),
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
}
