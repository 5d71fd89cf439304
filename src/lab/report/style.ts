/** How the page looks: in light and dark; shape and hatching tell apart, not colour alone. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --ground: #fff; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --panel: #f6f8fa;
  --store: #0b5cad; --on-store: #fff; --belief: #57606a; --amber: #ffe2a8; --amber-ink: #7a4b00;
  --red: #c4161c; --red-soft: #f9c9c9; --green: #116329;
  --window: #fbe3f1; --window-ink: #8a1c5c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d1117; --ink: #e6edf3; --soft: #9da7b3; --line: #30363d; --panel: #161b22;
    --store: #6cb6ff; --on-store: #06121f; --belief: #9da7b3;
    --amber: #5a4410; --amber-ink: #ffd88a;
    --red: #ff8a80; --red-soft: #5c2020; --green: #7ee2a0;
    --window: #45203a; --window-ink: #ffb3dd;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1320px; padding: 1rem 1.25rem 3rem; background: var(--ground);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: 0; }
h2 { font-size: 1.05rem; margin: 0; }
header p { margin: .2rem 0; max-width: 95ch; }
code, kbd { font: .88em ui-monospace, monospace; background: var(--panel); padding: .1em .35em;
  border: 1px solid var(--line); border-radius: 4px; overflow-wrap: anywhere; }
section.panel { border: 1px solid var(--line); border-left-width: 5px; border-radius: 8px;
  padding: .75rem .9rem; margin: 1rem 0; }
section.panel:focus, section.panel.active { outline: 2px solid var(--store); outline-offset: 1px; }
section.panel.loses { border-left-color: var(--red); border-left-style: dashed; }
section.panel.holds { border-left-color: var(--green); }
.head { display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline; }
.outcome { font-weight: 600; }
.take.loses .outcome { color: var(--red); }
.take.holds .outcome { color: var(--green); }
.leave-out { margin: .4rem 0; max-width: 110ch; font-size: .92rem; }
.leave-out label { font-weight: 600; margin-right: .6rem; }
.leave-out input { width: 14rem; vertical-align: middle; accent-color: var(--store); }
.leave-out ol { margin: .3rem 0; padding-left: 2rem; }
.leave-out li { cursor: pointer; }
.leave-out li[aria-current] { font-weight: 600; text-decoration: underline; }
.sentence { margin: .3rem 0; max-width: 95ch; }
.verdicts { display: flex; flex-wrap: wrap; gap: .3rem; list-style: none; margin: .5rem 0;
  padding: 0; }
.chip { font: 600 .8rem ui-monospace, monospace; border: 1.5px solid var(--line);
  border-radius: 999px; padding: .1rem .55rem; background: var(--ground); color: var(--ink); }
button.chip { cursor: pointer; }
.chip.fail { border-color: var(--red); color: var(--red); border-style: dashed; }
.chip.pass { border-color: var(--green); color: var(--green); }
.chip.unknown { color: var(--soft); border-style: dotted; }
.controls { display: flex; gap: .5rem; align-items: center; flex-wrap: wrap; margin-top: .4rem; }
.controls button { font: inherit; padding: .15rem .6rem; border: 1px solid var(--line);
  border-radius: 6px; background: var(--panel); color: var(--ink); cursor: pointer; }
button:focus-visible, input:focus-visible,
summary:focus-visible { outline: 2px solid var(--store); outline-offset: 1px; }
output { min-height: 1.5em; flex: 1 1 20rem; font: .88rem ui-monospace, monospace; }
details { margin-top: .4rem; }
summary { cursor: pointer; }
.rows { max-height: 22rem; overflow: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
td:nth-child(2) { width: 6rem; }
th, td { text-align: left; padding: .15rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td:first-child { width: 7rem; font-variant-numeric: tabular-nums; white-space: nowrap;
  text-align: right; }
tr[aria-current] td { background: var(--amber); color: var(--amber-ink); }
tr.conflicts td { background: var(--red-soft); }
tr.refused td:last-child { color: var(--red); font-weight: 600; }
.legend { display: grid; grid-template-columns: repeat(auto-fill, minmax(21rem, 1fr));
  gap: .1rem 1rem; font-size: .88rem; margin: .5rem 0; padding: 0; list-style: none; }
.legend svg { width: 34px; height: 16px; vertical-align: -3px; margin-right: .4rem; }
.scroll { overflow-x: auto; }
.scroll > svg { min-width: 860px; width: 100%; height: auto; display: block; }
`;

/** How the picture looks, in the page and in a file of its own. */
export const PICTURE_STYLE = `
svg text { font: 11.5px ui-monospace, monospace; fill: var(--ink); }
svg .small { font-size: 10.5px; fill: var(--soft); paint-order: stroke; stroke: var(--ground);
  stroke-width: 3px; stroke-linejoin: round; }
svg .lane { font-weight: 700; font-size: 13px; }
svg .lane-more { font-size: 10.5px; fill: var(--soft); }
svg .grid { stroke: var(--line); stroke-width: 1; stroke-dasharray: 1 4; }
svg .life { stroke: var(--line); stroke-width: 1.5; }
svg .grant { fill: var(--store); stroke: var(--ground); stroke-width: 1; }
svg .on-grant { fill: var(--on-store); font-weight: 600; }
svg .belief { stroke: var(--belief); stroke-width: 1.2; }
svg .belief.stale { stroke: var(--amber-ink); stroke-width: 2; stroke-dasharray: 5 3; }
svg .hatch { stroke-width: 1.3; fill: none; }
svg .hatch-belief { stroke: var(--belief); opacity: .55; }
svg .hatch-stale { stroke: var(--amber-ink); opacity: .7; }
svg .hatch-stop { stroke: var(--soft); stroke-width: 2; opacity: .6; }
svg .hatch-cut { stroke: var(--red); stroke-width: 1.5; opacity: .7; }
svg [class^="hatch-ground"] { fill: var(--ground); }
svg .hatch-ground-stale { fill: var(--amber); }
svg .on-hatch { paint-order: stroke; stroke: var(--ground); stroke-width: 4px; font-size: 11px; }
svg .band { stroke: var(--soft); stroke-width: 1; opacity: .95; }
svg .band-cut { stroke: var(--red); stroke-dasharray: 3 2; }
svg .gone { fill: var(--ground); opacity: .85; }
svg .cross { stroke: var(--ink); stroke-width: 2.5; fill: none; }
svg .tick { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 3 2; }
svg .overlap { fill: var(--amber); opacity: .75; }
svg .overlap-text { fill: var(--amber-ink); font-weight: 600; }
svg .effects { fill: var(--red-soft); stroke: var(--red); stroke-width: 1.5;
  stroke-dasharray: 4 2; }
svg .window { fill: none; stroke: var(--line); }
svg .window.open { fill: var(--window); stroke: var(--window-ink); stroke-dasharray: 2 2; }
svg .window-text { fill: var(--window-ink); font-weight: 600; }
svg .step { fill: none; stroke: var(--ink); stroke-width: 2; }
svg .track-mark .step { stroke: var(--store); stroke-width: 2.5; }
svg .op { stroke-width: 2; stroke: var(--ink); fill: var(--ink); }
svg .op-read.accepted { fill: var(--ground); stroke-width: 1.5; }
svg .op-arm.accepted { fill: var(--store); stroke: var(--store); }
svg .op.refused { fill: var(--ground); stroke: var(--red); stroke-width: 2.5; }
svg .op.clash { fill: var(--red); stroke: var(--red); }
svg .refused-text { fill: var(--red); font-weight: 700; }
svg .arrow { stroke: var(--soft); stroke-width: 1; opacity: .65; }
svg .arrow.reply { stroke-dasharray: 4 3; }
svg .arrow.late { stroke: var(--amber-ink); stroke-width: 2; opacity: 1; }
svg .arrow.lost { stroke: var(--red); stroke-dasharray: 2 3; opacity: 1; }
svg .late-text { fill: var(--amber-ink); font-weight: 600; }
svg .head { fill: var(--soft); }
svg .cursor { stroke: var(--store); stroke-width: 2; stroke-dasharray: 6 3; visibility: hidden; }
.active svg .cursor { visibility: visible; }
`;
