/** Connections of ioredis and iovalkey, whose clients end for good where we need them to go on. */
import { machineTimers } from "../../platform/clocks.js";
import { pauseMs } from "./duplicates.js";

/** What is used of a client here. */
interface Ending {
  connect(): Promise<unknown>;
  on(event: string, tell: (error: unknown) => void): unknown;
}

/** When a client goes on. */
export interface GoingOn {
  readonly isClosed: () => boolean;
  /** Where the time-out is not the caller's, nor is it for the caller's strategy to end it then. */
  readonly afterSilence: boolean;
}

const CALLED_OFF = "Connection is closed.";
const SILENT = /^Socket timeout\. /;

/**
 * Connects a client again that has ended for good.
 *
 * After a silence, by a strategy of the caller's that gives up: with every pause and until it is
 * connected again, since over a network that is still silent each try fails for another reason.
 *
 * And where the failover detector of ioredis and its reconnecting meet:
 *
 * 1. A connection has broken, and the client asks a sentinel for the primary.
 * 2. The detector, still the old one, hears of the failover and calls the connecting off.
 * 3. The sentinel answers: the client finds itself called off, as if somebody had closed it.
 *
 * It comes once in a failover, so the next try need not wait.
 */
export function goOn(client: Ending, { isClosed, afterSilence }: GoingOn): void {
  let last: unknown;
  let isSilent = false;
  let failures = 0;
  const connect = (): void => {
    if (!isClosed()) client.connect().catch(() => undefined);
  };
  const note = (error: unknown): void => {
    last = error;
    isSilent ||= afterSilence && error instanceof Error && SILENT.test(error.message);
  };
  client.on("error", note);
  // Of a cluster, whose own error names no cause.
  client.on("node error", note);
  client.on("ready", () => {
    isSilent = false;
    failures = 0;
  });
  client.on("end", () => {
    const wasCalledOff = last instanceof Error && last.message === CALLED_OFF;
    last = undefined;
    if (wasCalledOff) connect();
    else if (isSilent) machineTimers.after(pauseMs(failures++), connect, { ref: false });
  });
}
