/** `tenure partitions`: who owns what in a group; or a command for each partition owned here. */
import type { Tenure } from "../../core/tenure.js";
import type { FencingToken } from "../../core/token.js";
import type { MemberView, PartitionsView } from "../../partitions/contract.js";
import { partitionsView } from "../../partitions/group.js";
import { nameOperand, parse, STORE_FLAGS } from "../arguments.js";
import type { Command } from "../command.js";
import { splitCommand } from "../command-plan.js";
import { EXIT } from "../exit-codes.js";
import { print, printJson, processOf, quoted, table } from "../output.js";
import { meansCommand, readEachPlan, runEach } from "../partition-run.js";
import { withStoreAsItIs } from "../store.js";

const HELP = `Shows who owns what in a group that shares its partitions (tenure/partitions). With a
command: joins the group, and runs the command once for each partition that is owned here.

usage: tenure partitions NAME [--store URL] [--json]
       tenure partitions NAME --count N [flags] -- COMMAND [ARGUMENT…]

  tenure partitions orders
  tenure partitions orders --json | jq '.unowned | length'
  tenure partitions orders --count 8 -- ./consume       on each machine: they share the eight

A command whose partition goes to another member gets TERM and --drain to finish; one whose
lease is lost is stopped before another can own the partition. A command that ends with 0 leaves
its partition idle; one that fails ends them all, and the exit code is its own.

flags
  --count N    number of partitions, the same for all members
  --ttl 30s    how long the store keeps a lease without renewal; it is renewed all the while
  --grace 1s   time between TERM and KILL when a lease is lost; below a third of the TTL
  --drain 30s  time between TERM and KILL when a partition is to be another member's
  -c, --shell  run the words after -- with sh -c
  --store URL  the store; else $TENURE_STORE, else a file in your state folder
  --json       one line of JSON: count, members with their partitions, each partition with its
               token, and the numbers that nobody holds

The command gets TENURE_PARTITION, TENURE_TOKEN and the other variables of tenure run.

exit code: 0 (also while some are unowned)   1 the group has no members   64 wrong usage
  69 store unavailable   with a command: that of one that failed, or 128 + signal`;

const USAGE =
  "tenure partitions NAME [flags], or tenure partitions NAME --count N [flags] -- COMMAND";

async function run(argv: readonly string[]): Promise<number> {
  const { own, words } = splitCommand(argv);
  const looks = words === undefined && !meansCommand(own);
  return looks ? look(own) : runEach(readEachPlan(own, words));
}

async function look(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, STORE_FLAGS);
  const name = nameOperand(operands, USAGE);
  const tell = (view: PartitionsView): number => {
    if (values.json === true) printJson(view);
    else print(inWords(view));
    return view.members.length === 0 ? EXIT.free : EXIT.ok;
  };
  const empty = { name, count: undefined, members: [], partitions: [], unowned: [] };
  return withStoreAsItIs(
    values,
    () => tell(empty),
    async (tenure) => tell(await partitionsView(tenure as Tenure<FencingToken>, name)),
  );
}

function inWords({ name, count, members, partitions, unowned }: PartitionsView): string {
  if (count === undefined) return `${quoted(name)} has no members`;
  const owned = members.reduce((sum, member) => sum + member.partitions.length, 0);
  const leaving = partitions.length - owned;
  const rows = members.map((member) => [
    whoIs(member),
    String(member.partitions.length),
    ranges(member.partitions),
  ]);
  if (leaving > 0) rows.push(["no member any more", String(leaving), ""]);
  if (unowned.length > 0) rows.push(["nobody", String(unowned.length), ranges(unowned)]);
  return table([["OWNER", `OF ${count}`, "PARTITIONS"], ...rows]);
}

function whoIs({ id, info }: MemberView): string {
  return processOf({ holder: id, holderInfo: info, token: undefined });
}

/** Numbers in order, as people write them: `0-3,7`. */
function ranges(numbers: readonly number[]): string {
  const parts: [first: number, last: number][] = [];
  for (const number of numbers) {
    const last = parts.at(-1);
    if (last !== undefined && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([a, b]) => (a === b ? String(a) : `${a}-${b}`)).join(",");
}

/** The verb. */
export const command: Command = { help: HELP, run };
