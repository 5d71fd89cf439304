/** The control that leaves one fault out of a run, and what comes of it, in words. */
import { element, escape } from "./markup.js";
import { seconds } from "./names.js";
import type { LeftOut, Reported } from "./reported.js";
import { storyOf } from "./story.js";

/** How many updates a run loses. */
function lostIn(reported: Reported): number {
  return storyOf(reported).clashes.length;
}

/** What comes of a run without one fault, compared with the run as it was. */
export function comesOf({ reported, stopped }: LeftOut, lost: number): string {
  if (stopped !== undefined) return `it does not come about: ${stopped}`;
  const still = lostIn(reported);
  const count = still === 1 ? "1 update" : `${still} updates`;
  if (still > 0) return lost > 0 ? `✗ ${count} lost all the same` : `✗ ${count} lost`;
  return lost > 0 ? "✓ no update lost: it takes this fault" : "✓ no update lost";
}

/** The control, and a list of what it shows; nothing where there is nothing to leave out. */
export function leaveOutControl(reported: Reported, id: string): string {
  const { without = [], untried } = reported;
  if (untried !== undefined) {
    const text = `Its ${untried} faults are too many to play it without each of them.`;
    return element("p", { class: "leave-out" }, text);
  }
  if (without.length === 0) return "";
  const lost = lostIn(reported);
  const texts = [
    "nothing: the run as it was",
    ...without.map((one) => `${one.text} (${seconds(one.atMs)}): ${comesOf(one, lost)}`),
  ];
  return element(
    "div",
    { class: "leave-out" },
    element("label", { for: id }, "Leave out, and does it still fail?"),
    element("input", {
      ...{ id, type: "range", min: 0, max: without.length, step: 1, value: 0 },
      "aria-valuetext": texts[0],
    }),
    element(
      "ol",
      { start: 0 },
      ...texts.map((text, nth) =>
        element("li", { "data-take": nth, "aria-current": nth === 0 ? "true" : undefined },
          escape(text)),
      ),
    ),
  );
}
