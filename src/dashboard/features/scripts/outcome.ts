import { z } from 'zod';
import type { Ending } from '../../../protocol/index.ts';
import { ApiError } from '../../api/index.ts';
import type { JobStanding } from '../../live/index.ts';
import { jobOutcome, type JobOutcome } from '../../ui/index.ts';

/**
 * The result of an action on one of many devices: done or refused at once, a backup that was started, or a command still
 * running.
 */
export interface Outcome {
  deviceId: string;
  name: string;
  commandId: string | undefined;
  backupJobId?: string;
  refusal: string | undefined;
}

/** An action on many devices, as a drawer shows it. */
export interface Run {
  title: string;
  /** Of a saved script that was run. */
  runId?: string | undefined;
  outcomes: readonly Outcome[];
}

const Refusals = z.array(z.object({ deviceId: z.string(), code: z.string(), message: z.string() })).min(1);

/** The response of the server to commands for many devices. */
export interface Started {
  /** The script run, of a saved script. */
  executionId?: string;
  commands: readonly { id: string; deviceId: string }[];
  refused: readonly { deviceId: string; code: string; message: string }[];
}

/** If no device can do it, the server refuses the request and names each of them. */
export async function startedOrRefused(request: Promise<Started>): Promise<Started> {
  try {
    return await request;
  } catch (error) {
    const refusals = Refusals.safeParse(error instanceof ApiError ? error.details : undefined);
    if (!refusals.success) throw error;
    return { commands: [], refused: refusals.data };
  }
}

/** The refused ones first. */
export function outcomesOfCommands(
  { commands, refused }: Started,
  names: ReadonlyMap<string, string>,
): Outcome[] {
  const nameOf = (id: string) => names.get(id) ?? id;
  return [
    ...refused.map(({ deviceId, message }) => ({
      deviceId,
      name: nameOf(deviceId),
      commandId: undefined,
      refusal: message,
    })),
    ...commands.map(({ id, deviceId }) => ({
      deviceId,
      name: nameOf(deviceId),
      commandId: id,
      refusal: undefined,
    })),
  ];
}

/** How an outcome stands. */
export interface OutcomeStanding extends JobOutcome {
  /** That of its command if it has one; otherwise `refused`, `started` or `done`. */
  state: string;
  exitCode?: number | null | undefined;
  /** Why. */
  message: string;
}

export function standingOf(
  { commandId, backupJobId, refusal }: Outcome,
  standings: ReadonlyMap<string, JobStanding>,
): OutcomeStanding {
  if (refusal !== undefined) return { state: 'refused', text: 'Refused', group: 'bad', message: refusal };
  if (backupJobId !== undefined) return { state: 'started', text: 'Started', group: 'good', message: '' };
  if (commandId === undefined) return { state: 'done', text: 'Done', group: 'good', message: '' };
  const standing = standings.get(commandId);
  const ending: Ending = standing ?? { state: 'queued' };
  const { state, exitCode } = ending;
  return { state, exitCode, ...jobOutcome(ending), message: standing?.message ?? '' };
}
