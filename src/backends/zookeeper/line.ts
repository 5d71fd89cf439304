/** The line of one name: its contenders, first come first. */
import type { Call } from "../../core/backend.js";
import type { ZkSession } from "./client.js";
import { contenders, type Contender } from "./names.js";

/** Where the server's counter of a folder ends. */
const LAST = 2 ** 31 - 1;

/**
 * The contenders in a folder, in order. `fresh`: as they are after the call began.
 *
 * The digits in their names give the order for nothing, up to the end of the counter. There it was
 * seen (3.8) to give its last number again and again, and its first, negative ones in between: two
 * contenders would each take themselves for the first. So when one at the end is in line, all are
 * asked for the transaction that made them. It lasts until the folder was empty for a while: the
 * server removes it then, and the counter starts anew.
 */
export async function readLine(
  session: ZkSession,
  folder: string,
  call: Call,
  fresh: boolean,
): Promise<readonly Contender[]> {
  const line = contenders((await session.children(folder, call, fresh)) ?? []);
  if (line.every(({ sequence }) => sequence >= 0 && sequence < LAST)) return line;
  const nodes = await session.nodes(
    line.map(({ node }) => `${folder}/${node}`),
    call,
  );
  const made = line.flatMap((contender, i) => {
    const czxid = nodes[i]?.stat.czxid;
    // Gone since it was listed: it will not come back.
    return czxid === undefined ? [] : [{ contender, czxid }];
  });
  made.sort((a, b) => (a.czxid < b.czxid ? -1 : 1));
  return made.map(({ contender }) => contender);
}
