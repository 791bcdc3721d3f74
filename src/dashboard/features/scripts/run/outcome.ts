import { z } from 'zod';
import { ApiError } from '../../../api/index.ts';
import type { JobStanding } from '../../../live/index.ts';
import { formatCount, formatWord } from '../../../ui/index.ts';

/** What became of an action on one of many devices: done or refused at once, or a command that goes on. */
export interface Outcome {
  deviceId: string;
  name: string;
  commandId: string | undefined;
  refusal: string | undefined;
}

/** An action on many devices, as a drawer shows it. */
export interface Run {
  title: string;
  outcomes: readonly Outcome[];
}

const Refusals = z.array(z.object({ deviceId: z.string(), code: z.string(), message: z.string() })).min(1);

/** What the server answers to commands for many devices. */
export interface Started {
  commands: readonly { id: string; deviceId: string }[];
  refused: readonly { deviceId: string; code: string; message: string }[];
}

/** Where no device can do it, the server refuses the request and names each of them. */
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

/** An outcome with its state in one word, which is that of its command where it has one, and why. */
export function standingOf(
  { commandId, refusal }: Outcome,
  standings: ReadonlyMap<string, JobStanding>,
): { state: string; message: string } {
  if (refusal !== undefined) return { state: 'refused', message: refusal };
  if (commandId === undefined) return { state: 'done', message: '' };
  const { state = 'queued', message = '' } = standings.get(commandId) ?? {};
  return { state, message };
}

/** "3 succeeded, 1 refused": how many outcomes are in each state, the most first. */
export function tallyText(states: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const state of states) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .map(([state, count]) => `${formatCount(count)} ${formatWord(state).toLowerCase()}`)
    .join(', ');
}
