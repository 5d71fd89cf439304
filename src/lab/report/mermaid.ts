/** A run as a Mermaid sequence diagram, for a page that renders them. */
import type { Reported } from "./reported.js";
import { storyOf, type Story } from "./story.js";
import { sentences } from "./summary.js";
import { ROUTINE, tell } from "./words.js";

/** A diagram with more steps than this is not drawn by most renderers. */
const MOST_STEPS = 150;
/** What is told by arrows, or says little. */
const NOISE: ReadonlySet<string> = new Set([...ROUTINE, "message", "served"]);

/** Draws a run as a Mermaid sequence diagram: messages arrive from top to bottom. */
export function mermaid(reported: Reported): string {
  const story = storyOf(reported);
  const parts = participants(story);
  const steps = story.events.flatMap((event) => stepsOf(story, event, parts));
  const left = steps.length - MOST_STEPS;
  const lines = [
    "sequenceDiagram",
    ...parts.map((name, nth) => `  participant ${idOf(nth)} as ${clean(name)}`),
    ...steps.slice(0, MOST_STEPS),
    ...(left > 0 ? [`  note over ${idOf(0)}: ${left} more steps`] : []),
    ...sentences(story)
      .slice(0, 8)
      .map((text) => `  %% ${clean(text)}`),
  ];
  return `${lines.join("\n")}\n`;
}

function participants({ stores, servers, clients, resources, messages }: Story): readonly string[] {
  const others = servers.filter((name) => !stores.includes(name));
  const spoke = messages.some(({ from, to }) => from === "resource" || to === "resource");
  const hasResource = resources.length > 0 || spoke;
  return [...stores, ...others, ...clients, ...(hasResource ? ["resource"] : [])];
}

function stepsOf(
  story: Story,
  event: Story["events"][number],
  parts: readonly string[],
): readonly string[] {
  const at = `${(event.atMs / 1_000).toFixed(2)}s`;
  const place = (name: string): string | undefined => {
    const nth = parts.indexOf(name);
    return nth < 0 ? undefined : idOf(nth);
  };
  if (event.kind === "message" && isTold(story, event)) {
    const [from, to] = [place(event.from), place(event.to)];
    if (from === undefined || to === undefined) return [];
    const arrow = event.fate === "lost" ? "--x" : event.what.endsWith("reply") ? "-->>" : "->>";
    return [`  ${from}${arrow}${to}: ${at} ${clean(event.what)}`];
  }
  if (NOISE.has(event.kind)) return [];
  const where = "resource" in event ? "resource" : nameOf(event);
  const over = place(where) ?? place(story.stores[0] ?? "") ?? idOf(0);
  const text = clean(tell(event, story));
  return [`  note over ${over}: ${at} ${text}`];
}

/** Renewals and polls in vain go by; what they find is told by other facts. */
function isTold({ grants }: Story, message: Story["messages"][number]): boolean {
  const { what, fate, sentMs, atMs } = message;
  if (fate === "lost" || /^(release|arm|read|write)\b/.test(what)) return true;
  // The store grants when the question arrives, and then answers.
  const granted = ({ fromMs }: { readonly fromMs: number }): boolean =>
    sentMs <= fromMs && fromMs <= atMs;
  return what.startsWith("acquire") && grants.some(granted);
}

function nameOf(event: Story["events"][number]): string {
  if ("client" in event && event.client !== undefined) return event.client;
  if (event.kind === "fault") return event.target.split("→")[0] ?? event.target;
  return "";
}

function idOf(nth: number): string {
  return `p${nth}`;
}

/** What would end a line of the diagram early. */
function clean(text: string): string {
  return text.replace(/[;#\n]/g, ",").replace(/:/g, " –");
}
