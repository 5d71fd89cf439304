/** What somebody may have meant. */

/** The names that are most like a word, best first: at most three. */
export function nearest(word: string, names: readonly string[]): readonly string[] {
  const rated = names.map((name) => ({ name, far: distance(word.toLowerCase(), name) }));
  rated.sort((a, b) => a.far - b.far);
  return rated.slice(0, 3).map(({ name }) => name);
}

/** Edits from one to the other; a word that is part of the other is near. */
function distance(word: string, name: string): number {
  if (word !== "" && name.includes(word)) return (name.length - word.length) / 100;
  let row = Array.from({ length: name.length + 1 }, (_, at) => at);
  for (const [nth, char] of [...word].entries()) {
    const next = [nth + 1];
    for (let at = 1; at <= name.length; at++) {
      const change = row[at - 1]! + (name[at - 1] === char ? 0 : 1);
      next.push(Math.min(change, row[at]! + 1, next[at - 1]! + 1));
    }
    row = next;
  }
  return row[name.length]!;
}
