import { readFileSync } from "node:fs";
import path from "node:path";
import { root } from "./stage.js";

/** Links of a page: in Markdown, and in the HTML within. */
const LINK = /\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)|(?:href|src)="([^"]+)"/gm;

/** Anchors of a page, as its headings make them. */
function anchors(page: string): readonly string[] {
  const headings = readFileSync(path.join(root, page), "utf8").matchAll(/^#+ (.*)$/gm);
  return [...headings].map(([, heading]) =>
    heading!.toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, "").trim().replaceAll(" ", "-"),
  );
}

/** Links of a page that lead to no file of these, nor to a heading in one; as `page: link`. */
export function deadLinks(page: string, files: readonly string[]): readonly string[] {
  const text = readFileSync(path.join(root, page), "utf8");
  const links = [...text.matchAll(LINK)].map((match) => (match[1] ?? match[2] ?? match[3])!);
  const dead = links.filter((link) => {
    if (/^[a-z][a-z+.-]*:/i.test(link)) return false;
    const [to, anchor] = link.split("#") as [string, string?];
    const file = to === "" ? page : path.posix.join(path.posix.dirname(page), to);
    if (!files.includes(file)) return true;
    return anchor !== undefined && file.endsWith(".md") && !anchors(file).includes(anchor);
  });
  return dead.map((link) => `${page}: ${link}`);
}
