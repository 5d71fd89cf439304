/** Waiting for something to become so. */

/** What `look` answers once that is neither false nor null; fails after `limitMs`. */
export async function until<R>(
  look: () => R | Promise<R>,
  limitMs = 10_000,
): Promise<Exclude<Awaited<R>, null | undefined | false>> {
  const endMs = performance.now() + limitMs;
  for (;;) {
    const seen = await look();
    if (seen !== false && seen !== null && seen !== undefined) return seen as never;
    if (performance.now() > endMs) throw new Error(`not so within ${limitMs} ms: ${String(look)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
