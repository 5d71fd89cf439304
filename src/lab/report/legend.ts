/** The signs of a picture, and what they mean. */
import { element, escape } from "./markup.js";

const SIGNS: readonly (readonly [string, string])[] = [
  [`<rect x="1" y="2" width="32" height="12" class="grant"/>`, "what the store says: a lease held"],
  [
    `<rect x="1" y="2" width="32" height="12" class="belief" fill="url(#p0-belief)"/>`,
    "what a client believes",
  ],
  [
    `<rect x="1" y="2" width="32" height="12" class="belief stale" fill="url(#p0-stale)"/>`,
    "a belief that the store does not share any more",
  ],
  [
    `<rect x="1" y="1" width="32" height="14" class="overlap"/>`,
    "two believe to hold: normal, and not to be avoided",
  ],
  [
    `<rect x="1" y="1" width="32" height="14" class="effects"/>`,
    "two had effects: one wiped out the other; this is the bug",
  ],
  [
    `<rect x="1" y="2" width="32" height="12" class="band" fill="url(#p0-stop)"/>`,
    "paused, suspended, frozen",
  ],
  [
    `<rect x="1" y="2" width="32" height="12" class="band band-cut" fill="url(#p0-cut)"/>`,
    "cut off, in that direction",
  ],
  [`<path d="M11,3l11,11m0,-11l-11,11" class="cross"/>`, "killed"],
  [
    `<path d="M17,3l6,11h-12z" class="op op-arm accepted"/>`,
    "the resource is armed: its mark rises",
  ],
  [`<path d="M13,4h8v8h-8z" class="op op-read accepted"/>`, "a read"],
  [`<circle cx="17" cy="8" r="6" class="op accepted"/>`, "a write that was accepted"],
  [`<circle cx="17" cy="8" r="6" class="op refused"/>`, "refused, and why: 33 < 34"],
  [`<path d="M17,0l8,8l-8,8l-8,-8z" class="op clash"/>`, "a write of a lost update"],
  [
    `<rect x="1" y="1" width="32" height="14" class="window open"/>`,
    "open window: granted, and an older write still lands",
  ],
];

/** The legend. */
export const LEGEND: string = element(
  "ul",
  { class: "legend" },
  ...SIGNS.map(([sign, text]) =>
    element(
      "li",
      {},
      element("svg", { viewBox: "0 0 34 16", "aria-hidden": "true" }, sign),
      escape(text),
    ),
  ),
);
