/** Errors of the library, told as errors of Tenure. */
import { OutcomeUnknownError, TenureError, UnavailableError } from "../../core/errors.js";
import { has, isFinal, refusal } from "./client.js";

/** What was asked of whom. */
export interface Asked {
  readonly during: string;
  readonly topic: string;
  readonly brokers: readonly string[];
}

/** The error, with what can be done about it. */
export function explain(error: unknown, { during, topic, brokers }: Asked): TenureError {
  if (error instanceof TenureError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const about = { backend: "kafka", cause: error };
  const at = brokers.join(", ");
  if (/^Unknown topic/.test(message) || has(error, "apiId", "UNKNOWN_TOPIC_OR_PARTITION")) {
    const text = `Kafka at ${at} has no topic ${JSON.stringify(topic)}`;
    return new UnavailableError(text, { ...about, retryable: false });
  }
  const refused = refusal(error);
  const said = refused === undefined ? message : `${refused.apiId}: ${refused.message}`;
  if (isFinal(error)) {
    const text = `Kafka at ${at} refuses to ${during}: ${said}`;
    return new UnavailableError(text, { ...about, retryable: false });
  }
  const isConnecting =
    has(error, "code", "PLT_KFK_NETWORK") || /connect|ECONN|closed/i.test(message);
  if (isConnecting) {
    const text = `no Kafka broker answers at ${at} (${during}): ${message}`;
    return new UnavailableError(text, about);
  }
  return new OutcomeUnknownError(`Kafka could not ${during}: ${said}`, about);
}
