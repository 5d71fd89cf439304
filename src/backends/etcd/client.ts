/** How a question is put to the cluster. */
export interface AskOptions {
  /** What is being done, as it stands after "cannot": "acquire a lease". */
  readonly during: string;
  /** Nothing can have happened when there is no answer. */
  readonly isRead?: boolean;
  readonly timeoutMs: number;
  /** Whether it must not wait for others: it keeps what is held. */
  readonly isUrgent?: boolean;
  /** Which lock name, for errors. */
  readonly lock?: string;
}

/** What the cluster answered. */
export interface Reply {
  readonly body: object;
  /** Whether a copy of the request may still be carried out. */
  readonly isLoose: boolean;
  /** Instead of a body: the lease in the request is gone, or the revision. */
  readonly refused?: "no-lease" | "compacted";
}

/** What a watch tells. */
export interface WatchSink {
  message(result: object): void;
  /** Told once, and not to whoever has closed it. */
  ended(): void;
}

/**
 * The part of a client that the backend uses. Rejects with `UnavailableError` or
 * `OutcomeUnknownError`; a request may be carried out twice, and late.
 */
export interface EtcdGateway {
  ask(path: string, body: object, options: AskOptions): Promise<Reply>;
  watch(create: object, sink: WatchSink): () => void;
}
