import type { Caller } from '../../platform/context.ts';
import type {
  CommandProgress,
  CommandSecrets,
  DurableCommandType,
  JobsSubscribe,
  JobUpdate,
} from '../../protocol/index.ts';
import type { JobChange } from './long-work.ts';

/** A command of the ledger that is marked as dispatched under this epoch. */
export interface DispatchedCommand {
  id: string;
  deviceId: string;
  type: DurableCommandType;
  payload: unknown;
  attempt: number;
  epoch: number;
  deadline: string;
  /** What the references in the payload stand for. Only for the frame: never logged and never stored elsewhere. */
  secrets?: CommandSecrets;
}

/** A connected device that may be sent commands. */
export interface CommandClaim {
  deviceId: string;
  epoch: number;
  /** Whether its agent runs commands in lanes. */
  knowsLanes: boolean;
  /** An earlier call with this claim failed, so it may have marked commands that were never sent. */
  isUncertain?: boolean;
}

/** A change in the state of a command, as its device reports it. */
export type CommandEvent = { id: string; deviceId: string } & (
  | { kind: 'accepted' }
  /** The device accepts no more work now, so the command waits again. */
  | { kind: 'postponed' }
  | { kind: 'running'; progress?: Omit<CommandProgress, 'id' | 'seq'> }
  | { kind: 'finished'; end: CommandEnd }
);
export interface CommandEnd {
  status: 'succeeded' | 'failed' | 'cancelled' | 'timed_out';
  output?: unknown;
  error?: { code: string; message: string };
}

/** Durable commands: each takes effect once, even when processes fail (DESIGN 4.7). */
export interface CommandLedger {
  /**
   * Marks the commands that the devices may be sent now as dispatched and returns them, in the order in which they were
   * created: in each lane at most as many as a device runs at once, and two for an agent that knows no lanes. Devices of a
   * suspended organization get none. Commands that were sent under an earlier claim and never acknowledged are returned
   * again, and under an uncertain claim also those that were marked under the same epoch. `cancelled` lists commands on a
   * device that have to end.
   */
  take(claims: readonly CommandClaim[]): Promise<{
    dispatched: DispatchedCommand[];
    cancelled: { id: string; deviceId: string }[];
    changed: JobChange[];
  }>;
  /** Records events. An event of an unknown, finished or another device's command changes nothing. */
  record(events: readonly CommandEvent[]): Promise<JobChange[]>;
  /** Devices with commands that were not sent yet or have to be cancelled, ordered by id, starting after `after`. */
  undelivered(after: string | undefined, atMost: number): Promise<string[]>;
  /** Ends commands that have expired or timed out. */
  sweep(): Promise<JobChange[]>;
  /**
   * The open commands that the caller may see, newest first, or the one that the filter names, whatever its state; empty
   * where there is none. Throws `forbidden` for an organization outside the scope and `not_found` for a device that the
   * caller does not see.
   */
  jobs(caller: Caller, filter: JobsSubscribe): Promise<JobUpdate[]>;
}
