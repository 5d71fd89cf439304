/** What the fence uses of a client of etcd. A request may be carried out twice, and late. */
export interface EtcdGateway {
  ask(
    path: string,
    body: object,
    options: {
      readonly during: string;
      readonly isRead?: boolean;
      readonly timeoutMs: number;
      readonly lock?: string;
    },
  ): Promise<{
    readonly body: object;
    /** Whether a copy of the request may still be carried out, or was. */
    readonly isLoose: boolean;
    readonly refused?: "no-lease" | "compacted";
  }>;
}
