/** Channels that can be listened to. The libraries listen again by themselves after a reconnect. */
export interface RedisChannels {
  /**
   * Once this resolves, messages are heard, unless the connection breaks.
   *
   * On a cluster the channel is a sharded one (`SSUBSCRIBE`, Redis 7): published in the slot of the
   * channel's name with `SPUBLISH`. Elsewhere it is an ordinary one.
   */
  subscribe(channel: string, hear: (message: string) => void): Promise<void>;
  /** Stops what {@link RedisChannels.subscribe} began with the same function. */
  unsubscribe(channel: string, hear: (message: string) => void): Promise<void>;
  /** Ends connections beside the one it was made of, which is its maker's to end. */
  close(): void;
}
