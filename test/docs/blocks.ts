import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

/** The repository's root folder. */
export const root: string = path.resolve(import.meta.dirname, "../..");

/** A fenced example of a Markdown page. */
export interface Block {
  /** Page and line, as a reader would cite it. */
  readonly where: string;
  readonly language: "ts" | "js";
  /** The example, after the ones that it continues. */
  readonly code: string;
  /** Marked `run`: an example that ends by itself and needs no server. */
  readonly runs: boolean;
  /** Why it is not compiled, where its first line says so. */
  readonly notCompiled?: string;
}

/**
 * The ts and js examples of README.md and docs.
 *
 * The word after the language says more: `run` runs the example, `continued` puts the block
 * before it in front. An example whose first line is `// not compiled: REASON` is counted and
 * left alone.
 */
export function blocks(): Block[] {
  const docs = readdirSync(path.join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .map((file) => `docs/${file}`);
  const pages = ["README.md", ...docs.sort()].filter((page) => existsSync(path.join(root, page)));
  return pages.flatMap((page) => blocksOf(page, readFileSync(path.join(root, page), "utf8")));
}

/** The ts and js examples of one page. */
export function blocksOf(page: string, text: string): Block[] {
  const fence = /^```(ts|js)\b([^\n]*)\n([\s\S]*?)^```$/gm;
  const found: Block[] = [];
  for (const match of text.matchAll(fence)) {
    const [, language, info = "", body = ""] = match;
    const words = info.trim().split(/\s+/);
    const before = words.includes("continued") ? `${found.at(-1)?.code ?? ""}\n` : "";
    const reason = /^\/\/ not compiled:(.*)/.exec(body)?.[1]?.trim();
    found.push({
      where: `${page}:${text.slice(0, match.index).split("\n").length}`,
      language: language === "js" ? "js" : "ts",
      code: before + body,
      runs: words.includes("run"),
      ...(reason === undefined ? {} : { notCompiled: reason }),
    });
  }
  return found;
}
