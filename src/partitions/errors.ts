import { TenureError, type ErrorContext } from "../core/errors.js";

/** The group runs with another number of partitions than was given: its keys lie elsewhere. */
export class PartitionCountError extends TenureError {
  readonly code = "TENURE_PARTITION_COUNT";
  readonly family = "refused";
  /** Name of the group. */
  readonly group: string;
  /** What was given here. */
  readonly count: number;
  /** What the living members were given. */
  readonly running: number;

  constructor(
    context: ErrorContext & {
      readonly group: string;
      readonly count: number;
      readonly running: number;
    },
  ) {
    const { group, count, running } = context;
    super(
      `the group ${JSON.stringify(group)} runs with ${running} partitions, not ${count}: end all ` +
        "its members before the number changes, or one key would have two owners",
      context,
    );
    this.group = group;
    this.count = count;
    this.running = running;
  }
}

/** The group wants a partition back: the reason of its `revoked`. */
export class PartitionRevokedError extends TenureError {
  readonly code = "TENURE_PARTITION_REVOKED";
  readonly family = "refused";
  readonly partition: number;

  constructor(message: string, context: ErrorContext & { readonly partition: number }) {
    super(message, context);
    this.partition = context.partition;
  }
}
