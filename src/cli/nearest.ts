/** What somebody may have meant. */

/** `did you mean x or y? ` with at most `most` of the names, or nothing where none is near. */
export function meantOf(word: string, names: readonly string[], most = 3): string {
  const near = nearest(word, names).slice(0, most);
  return near.length === 0 ? "" : `did you mean ${near.join(" or ")}? `;
}

/**
 * The names that a word may be a slip of, best first. One edit in three letters at most: with more,
 * any short word is near any other, and the question sends its reader the wrong way.
 */
export function nearest(word: string, names: readonly string[]): readonly string[] {
  // One letter is a part of most names.
  if (word.length < 2) return [];
  const most = Math.max(1, Math.floor(word.length / 3));
  return names
    .map((name) => ({ name, far: distance(word.toLowerCase(), name.toLowerCase()) }))
    .filter(({ far }) => far <= most)
    .sort((a, b) => a.far - b.far)
    .map(({ name }) => name);
}

/**
 * Edits from one to the other, where two letters that changed places are one edit; a word that is
 * part of the other is near.
 */
function distance(word: string, name: string): number {
  if (name.includes(word)) return (name.length - word.length) / 100;
  let before: readonly number[] = [];
  let row = Array.from({ length: name.length + 1 }, (_, at) => at);
  for (let nth = 0; nth < word.length; nth++) {
    const next = [nth + 1];
    for (let at = 1; at <= name.length; at++) {
      const change = row[at - 1]! + (name[at - 1] === word[nth] ? 0 : 1);
      const isSwap = at > 1 && name[at - 1] === word[nth - 1] && name[at - 2] === word[nth];
      const swap = isSwap ? before[at - 2]! + 1 : Infinity;
      next.push(Math.min(change, swap, row[at]! + 1, next[at - 1]! + 1));
    }
    before = row;
    row = next;
  }
  return row[name.length]!;
}
