import { TenureError, type ErrorContext } from "../core/errors.js";

/** What stands in the way of a change: nothing is there, its time is over, or it is confirmed. */
export type ReservationState = "absent" | "expired" | "held" | "confirmed";

/** The reservation is not in a state from which this change is possible. */
export class ReservationStateError extends TenureError {
  readonly code = "TENURE_RESERVATION_STATE";
  readonly family = "refused";
  readonly item: string;
  readonly holder: string;
  /** `absent` also when an expired one was removed since. */
  readonly state: ReservationState;

  constructor(
    message: string,
    context: ErrorContext & {
      readonly item: string;
      readonly holder: string;
      readonly state: ReservationState;
    },
  ) {
    super(message, context);
    this.item = context.item;
    this.holder = context.holder;
    this.state = context.state;
  }
}

/** What was asked for does not go with the capacity of the item, whoever has places of it. */
export class CapacityError extends TenureError {
  readonly code = "TENURE_CAPACITY";
  readonly family = "refused";
  readonly item: string;
  readonly capacity: number;
  /** How many places are taken. */
  readonly taken: number;

  constructor(
    message: string,
    context: ErrorContext & {
      readonly item: string;
      readonly capacity: number;
      readonly taken: number;
    },
  ) {
    super(message, context);
    this.item = context.item;
    this.capacity = context.capacity;
    this.taken = context.taken;
  }
}
