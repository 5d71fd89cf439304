import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { html } from "../../src/lab/report/html.js";
import { reportedOf } from "../../src/lab/report/reported.js";
import type { FenceMode } from "../../src/lab/resource.js";
import { findScenario, play } from "../../src/lab/scenarios/play.js";
import { chromiumProgram, startChromium } from "../servers/chromium.js";
import { describeOn } from "../servers/find.js";

const FENCES: readonly FenceMode[] = ["none", "naive", "armed"];

describeOn(chromiumProgram, "the page of a run", () => {
  let folder: string;
  let browser: Browser;
  let page: Page;
  const problems: string[] = [];
  const requests: string[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "tenure-page-"));
    const scenario = findScenario("first-write-hole");
    const runs = [];
    for (const fence of FENCES) runs.push(reportedOf(await play(scenario, { seed: 1, fence })));
    writeFileSync(path.join(folder, "page.html"), html(runs, "naive"));
    browser = await startChromium();
  });

  beforeEach(async () => {
    problems.length = requests.length = 0;
    page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
    });
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(pathToFileURL(path.join(folder, "page.html")).href);
    return () => page.close();
  });

  afterAll(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const panel = (fence: FenceMode): string => `section[data-fence="${fence}"]`;
  const count = (selector: string): Promise<number> => page.locator(selector).count();

  test("says nothing on the console and asks nothing of a network", async () => {
    await page.keyboard.press("ArrowRight");
    expect(problems).toEqual([]);
    expect(requests).toEqual([page.url()]);
  });

  test("keeps the three truths on tracks of their own", async () => {
    for (const fence of FENCES) {
      expect(await count(`${panel(fence)} .track-store .grant`)).toBe(2);
      // Both of A, which believes for longer than the store does, and of B.
      expect(await count(`${panel(fence)} .track-belief .belief`)).toBe(3);
      expect(await count(`${panel(fence)} .track-belief .stale`)).toBe(1);
      expect(await count(`${panel(fence)} .track-value path.step`)).toBe(1);
      expect(await count(`${panel(fence)} .band-stop`)).toBe(1);
      expect(await count(`${panel(fence)} .overlaps .overlap`)).toBe(1);
      expect(await count(`${panel(fence)} .messages .arrow`)).toBeGreaterThan(4);
    }
    expect(await count(`${panel("none")} .track-mark path.step`)).toBe(0);
    expect(await count(`${panel("armed")} .track-mark path.step`)).toBe(1);
  });

  test("marks the refused write, the lost update, and the window in which it is lost", async () => {
    const refused = page.locator(`${panel("armed")} [data-op="write"][data-state="refused"]`);
    expect(await refused.count()).toBe(1);
    // Hollow: what is inside is the ground behind it.
    const ground = await page.evaluate("getComputedStyle(document.body).backgroundColor");
    const sign = `document.querySelector('${panel("armed")} [data-state="refused"]')`;
    expect(await page.evaluate(`getComputedStyle(${sign}).fill`)).toBe(ground);
    expect(await page.locator(`${panel("armed")} svg`).textContent()).toContain("33 < 34");
    expect(await count(`${panel("armed")} .window.open, ${panel("armed")} .effects`)).toBe(0);
    for (const fence of ["none", "naive"] as const) {
      expect(await count(`${panel(fence)} [data-state="refused"]`)).toBe(0);
      expect(await count(`${panel(fence)} [data-state="clash"]`)).toBe(2);
      expect(await count(`${panel(fence)} .window.open`)).toBe(1);
      expect(await count(`${panel(fence)} .effects`)).toBe(1);
      expect(await page.locator(`${panel(fence)} .sentence`).first().textContent()).toMatch(
        /^A \(token 33\) wrote v\d+ after B had read v0; .*A's acknowledged update is lost\.$/,
      );
    }
  });

  test("is stepped through by keyboard, panel by panel", async () => {
    const said = (fence: FenceMode): Promise<string | null> =>
      page.locator(`${panel(fence)} output`).textContent();
    const cursorAt = (): Promise<string | null> =>
      page.locator(`${panel("armed")} .cursor`).getAttribute("x1");
    await page.keyboard.press("3");
    await page.keyboard.press("Home");
    expect(await said("armed")).toMatch(/^1\/\d+ .* grants job to A, token 33$/);
    const first = await cursorAt();
    await page.keyboard.press("ArrowRight");
    expect(await said("armed")).toMatch(/^2\/\d+ .*arms account/);
    expect(Number(await cursorAt())).toBeGreaterThan(Number(first));
    await page.keyboard.press("ArrowLeft");
    expect(await cursorAt()).toBe(first);
    await page.keyboard.press("End");
    const rows = await count(`${panel("armed")} tbody tr`);
    expect(await said("armed")).toMatch(new RegExp(`^${rows}/${rows} `));
    // The others stand where they stood.
    expect(await said("none")).toContain("press →");
  });

  test("says all of it in words, too, and leads from a verdict to its moment", async () => {
    const words = await page.locator(`${panel("armed")} tbody`).textContent();
    expect(words).toContain("A writes account with token 33: REFUSED, 33 < 34");
    expect(await page.locator(`${panel("none")} svg[role="img"]`).getAttribute("aria-label")).toMatch(
      /^Timeline of first-write-hole, fence none/,
    );
    await page.locator(`${panel("naive")} button.chip.fail`).click();
    expect(await page.locator(`${panel("naive")} output`).textContent()).toMatch(/B writes account/);
    const rows = (state: string): Promise<string | null> =>
      page.locator(`${panel("naive")} tr${state}`).textContent();
    expect(await rows(".conflicts")).toMatch(/A writes account .* v0 → v1/);
    expect(await rows("[aria-current]")).toMatch(/B writes account .* v0 → v2/);
  });

  test("saves a picture as a file that stands alone", async () => {
    const coming = page.waitForEvent("download");
    await page.locator(`${panel("armed")} button[data-save]`).click();
    const download = await coming;
    expect(download.suggestedFilename()).toBe("first-write-hole-armed.svg");
    const file = path.join(folder, "saved.svg");
    await download.saveAs(file);
    await page.goto(pathToFileURL(file).href);
    expect(await count('[data-state="refused"]')).toBe(1);
    expect(await page.evaluate("getComputedStyle(document.querySelector('.grant')).fill")).not.toBe(
      "rgb(0, 0, 0)",
    );
    expect(problems).toEqual([]);
  });

  test("has other colours in the dark, and the same signs", async () => {
    const ground = (): Promise<unknown> =>
      page.evaluate("getComputedStyle(document.body).backgroundColor");
    const light = await ground();
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await ground()).not.toBe(light);
    expect(problems).toEqual([]);
  });
});
