/** What is done with locks that were granted: each is decided by a majority of the servers. */
import type { Call, Grant, Held, Released, ReleaseRequest, Renewed } from "../../core/backend.js";
import { answersOf, noMajority, unsureOf } from "./ballot.js";
import type { Reply } from "./client.js";
import type { Member, Members } from "./members.js";
import { beginning, mostOf, readSeen, type Seen } from "./records.js";
import { LOOK, RELEASE, RENEW } from "./scripts.js";

/** Locks of the servers. */
export class Leases {
  readonly #members: Members;
  readonly #keyOf: (name: string) => string;

  constructor(members: Members, keyOf: (name: string) => string) {
    this.#members = members;
    this.#keyOf = keyOf;
  }

  /** One outcome per grant: renewed by a majority, lost to one, or neither for certain. */
  renew(grants: readonly Grant<undefined>[], call: Call): Promise<readonly Renewed[]> {
    const keys = grants.map(({ name }) => this.#keyOf(name));
    const args = grants.flatMap(({ holder, ttlMs }) => [holder, String(ttlMs)]);
    const ask = async (member: Member): Promise<readonly ("renewed" | Seen)[]> => {
      const answers = listOf(await member.evaluate("renew leases", RENEW, keys, args));
      return grants.map((_, i) =>
        answers[i] === 1 ? "renewed" : readSeen(answers[i]),
      );
    };
    return this.#members.ask<readonly ("renewed" | Seen)[], readonly Renewed[]>(
      ask,
      (votes, isFinal) => {
        const answers = answersOf(votes);
        const unsure = unsureOf(votes);
        const outcomes = grants.map((_, i) =>
          this.#renewal(answers.map((answer) => answer[i]!), unsure, isFinal),
        );
        return outcomes.every((outcome) => outcome !== undefined) ? outcomes : undefined;
      },
      call,
    );
  }

  /** One outcome per request. Nothing is left that could keep a majority from others. */
  release(requests: readonly ReleaseRequest<undefined>[], call: Call): Promise<Released[]> {
    const keys = requests.map(({ name }) => this.#keyOf(name));
    const args = requests.map(({ holder }) => beginning(holder));
    const ask = async (member: Member): Promise<readonly Reply[]> =>
      listOf(await member.evaluate("release leases", RELEASE, keys, args));
    return this.#members.ask<readonly Reply[], Released[]>(
      ask,
      (votes, isFinal) => {
        const answers = answersOf(votes);
        const outcomes = requests.map((_, i) => {
          const deleted = answers.filter((answer) => answer[i] === 1).length;
          return this.#releasing(deleted, answers.length, isFinal);
        });
        return outcomes.every((outcome) => outcome !== undefined) ? outcomes : undefined;
      },
      call,
    );
  }

  /**
   * Who has each lock, by a majority of the servers, or may have it where too few answer. Null for
   * what Tenure did not write.
   *
   * @throws UnavailableError when a majority does not answer.
   */
  look(names: readonly string[], call: Call): Promise<readonly (Held | null)[]> {
    const keys = names.map(this.#keyOf);
    const ask = async (member: Member): Promise<readonly Seen[]> => {
      const answers = listOf(await member.evaluate("look at leases", LOOK, keys, []));
      return names.map((_, i) => readSeen(answers[i]));
    };
    return this.#members.ask<readonly Seen[], readonly (Held | null)[]>(
      ask,
      (votes, isFinal) => {
        const answers = answersOf(votes);
        if (isFinal && answers.length < this.#members.quorum) {
          throw noMajority("look at leases", votes, 0);
        }
        const seen = names.map((_, i) => {
          const ofThis = answers.map((answer) => answer[i]!);
          return this.#holding(ofThis, isFinal);
        });
        return seen.every((held) => held !== undefined) ? seen : undefined;
      },
      call,
    );
  }

  #renewal(
    answers: readonly ("renewed" | Seen)[],
    unsure: number,
    isFinal: boolean,
  ): Renewed | undefined {
    const { quorum, all } = this.#members;
    const renewed = answers.filter((answer) => answer === "renewed").length;
    if (renewed >= quorum) return "renewed";
    const others = answers.filter((answer) => answer !== "renewed");
    if (others.length > all.length - quorum) {
      return { lost: mostOf(others.filter((answer) => typeof answer === "object")) ?? "absent" };
    }
    if (!isFinal) return undefined;
    return renewed + unsure >= quorum ? "unknown" : "unavailable";
  }

  #releasing(deleted: number, answered: number, isFinal: boolean): Released | undefined {
    const { quorum, all } = this.#members;
    if (deleted >= quorum) return "released";
    if (answered - deleted > all.length - quorum) return "not-held";
    if (!isFinal) return undefined;
    if (answered < quorum) return "unknown";
    return deleted > 0 ? "released" : "not-held";
  }

  #holding(answers: readonly Seen[], isFinal: boolean): Held | null | undefined {
    const { quorum, all } = this.#members;
    const shown = answers.filter((answer) => typeof answer === "object");
    const silent = all.length - answers.length;
    const most = mostOf(shown);
    if (most === undefined) return silent < quorum || isFinal ? null : undefined;
    const theirs = shown.filter(({ holder }) => holder === most.holder);
    if (theirs.length >= quorum) {
      const lefts = theirs.map(({ leftMs }) => leftMs).sort((a, b) => b - a);
      return { ...most, leftMs: lefts[quorum - 1]! };
    }
    if (theirs.length + silent < quorum) return null;
    return isFinal ? most : undefined;
  }
}

function listOf(reply: Reply): readonly Reply[] {
  return Array.isArray(reply) ? (reply as readonly Reply[]) : [];
}
