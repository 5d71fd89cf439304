/** One verb of the command line. */
export interface Command {
  /** Text of `tenure VERB --help`. */
  readonly help: string;
  /** Runs it; answers the exit code. */
  run(args: readonly string[]): Promise<number>;
  /** Whether its first argument is a verb of its own, which answers `--help` itself. */
  readonly hasVerbs?: boolean;
}
