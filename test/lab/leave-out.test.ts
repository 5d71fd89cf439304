import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { html } from "../../src/lab/report/html.js";
import { comesOf } from "../../src/lab/report/leave-out.js";
import type { Reported } from "../../src/lab/report/reported.js";
import { storyOf } from "../../src/lab/report/story.js";
import type { FenceMode } from "../../src/lab/resource.js";
import { reportedWithout } from "../../src/lab/scenarios/leave-out.js";
import { findScenario, play } from "../../src/lab/scenarios/play.js";
import { chromiumProgram, startChromium } from "../servers/chromium.js";
import { describeOn } from "../servers/find.js";

async function reported(name: string, fence: FenceMode): Promise<Reported> {
  const [scenario, settings] = [findScenario(name), { seed: 1, fence } as const];
  return reportedWithout(scenario, settings, await play(scenario, settings));
}

const outcomes = ({ without = [], ...base }: Reported): readonly string[] =>
  without.map((one) => `${one.text}: ${comesOf(one, storyOf(base).clashes.length)}`);

test("without the pause nobody is stale; the cuts that only one client feels change nothing", async () => {
  expect(outcomes(await reported("paused-holder", "none"))).toEqual([
    "A is paused for 20 s: ✓ no update lost: it takes this fault",
  ]);
  expect(outcomes(await reported("paused-holder", "armed"))).toEqual([
    "A is paused for 20 s: ✓ no update lost",
  ]);
  const cuts = outcomes(await reported("redlock-clock", "none"));
  expect(cuts).toContain("the wall clock of r3 is set ahead by 10 s: ✓ no update lost: it takes this fault");
  expect(cuts).toContain("B is cut off towards r1: ✗ 1 update lost all the same");
});

test("a story that does not come about without a fault says where it ended", async () => {
  const [late] = outcomes(await reported("own-late-write", "none"));
  expect(late).toMatch(/: it does not come about: the first write was answered$/);
});

test("leaving out does nothing to what came before, and the whole run stays as it was", async () => {
  const scenario = findScenario("mark-lost");
  const settings = { seed: 1, fence: "armed" } as const;
  const played = await play(scenario, settings);
  const { without, events } = await reportedWithout(scenario, settings, played);
  expect(played.traceHash).toBe((await play(scenario, settings)).traceHash);
  for (const { atMs, reported: less } of without!) {
    const before = events.filter((event) => event.atMs < atMs - 0.001);
    expect(less.events.slice(0, before.length)).toEqual(before);
    expect(less.events).not.toEqual(events);
  }
});

test("too many faults are not tried one by one, and the page says so", async () => {
  const many = await reported("slow-store", "none");
  expect(many.without).toBeUndefined();
  expect(html([many])).toMatch(/Its \d+ faults are too many to play it without each of them\./);
  expect(html([many])).not.toContain('type="range"');
});

describeOn(chromiumProgram, "the slider of a page", () => {
  let folder: string;
  let browser: Browser;
  let page: Page;
  const problems: string[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "tenure-slider-"));
    const runs = [await reported("redlock-clock", "none"), await reported("redlock-clock", "armed")];
    writeFileSync(path.join(folder, "page.html"), html(runs, "none"));
    browser = await startChromium();
  });

  beforeEach(async () => {
    problems.length = 0;
    page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
    });
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(pathToFileURL(path.join(folder, "page.html")).href);
    return async () => {
      expect(problems).toEqual([]);
      await page.close();
    };
  });

  afterAll(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const inPanel = (fence: string, selector: string) =>
    page.locator(`section[data-fence="${fence}"] ${selector}`);
  const outcome = (fence: string) => inPanel(fence, ".take:not([hidden]) .outcome").textContent();

  test("leaves a fault out by keyboard, and shows the run without it", async () => {
    expect(await outcome("none")).toBe("✗ 1 update lost");
    const slider = inPanel("none", 'input[type="range"]');
    await slider.focus();
    await page.keyboard.press("End");
    expect(await outcome("none")).toMatch(/^✓ no update lost/);
    // Said in words, to those who do not see it, too.
    expect(await slider.getAttribute("aria-valuetext")).toMatch(/wall clock of r3 .* takes this fault$/);
    expect(await inPanel("none", ".leave-out li[aria-current]").textContent()).toContain("r3");
    // The other panel stands where it stood, and the arrows did not step through the table.
    expect(await inPanel("armed", ".leave-out li[aria-current]").getAttribute("data-take")).toBe("0");
    expect(await inPanel("none", ".take:not([hidden]) tr[aria-current]").count()).toBe(0);
    await page.keyboard.press("ArrowLeft");
    expect(await outcome("none")).toBe("✗ 1 update lost");
    await page.keyboard.press("Home");
    expect(await inPanel("none", ".take:not([hidden])").getAttribute("data-take")).toBe("0");
  });

  test("leaves a fault out by a click on its words; steps and pictures are those of that run", async () => {
    await inPanel("none", '.leave-out li[data-take="9"]').click();
    expect(await inPanel("none", 'input[type="range"]').inputValue()).toBe("9");
    await page.keyboard.press("1");
    await page.keyboard.press("Home");
    const said = await inPanel("none", ".take:not([hidden]) output").textContent();
    const rows = await inPanel("none", ".take:not([hidden]) tbody tr").count();
    expect(said).toMatch(new RegExp(`^1/${rows} `));
    const coming = page.waitForEvent("download");
    await inPanel("none", ".take:not([hidden]) button[data-save]").click();
    expect((await coming).suggestedFilename()).toBe("redlock-clock-none-without-9.svg");
  });
});
