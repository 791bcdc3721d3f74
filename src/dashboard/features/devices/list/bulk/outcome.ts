import type { DeviceSummary } from '../../../../../protocol/index.ts';
import type { Answer } from '../../../../api/index.ts';
import type { JobStanding } from '../../../../live/index.ts';
import type { Started } from '../../dialogs/run-script.ts';

/** What became of an action on one of many devices: done or refused at once, or a command that goes on. */
export interface Outcome {
  deviceId: string;
  name: string;
  commandId: string | undefined;
  refusal: string | undefined;
}

/** An action on many devices, as the drawer shows it. */
export interface BulkRun {
  title: string;
  outcomes: readonly Outcome[];
}

const nameIn = (devices: readonly DeviceSummary[]): ((id: string) => string) => {
  const names = new Map(devices.map((device) => [device.id, device.displayName ?? device.hostname]));
  return (id) => names.get(id) ?? id;
};

export function outcomesOfChange(
  { results }: Answer<'POST /devices/bulk'>,
  devices: readonly DeviceSummary[],
): Outcome[] {
  const nameOf = nameIn(devices);
  return results.map(({ deviceId, ok, message }) => ({
    deviceId,
    name: nameOf(deviceId),
    commandId: undefined,
    refusal: ok ? undefined : (message ?? 'It was refused.'),
  }));
}

export function outcomesOfCommands(
  { commands, refused }: Pick<Started, 'commands' | 'refused'>,
  devices: readonly DeviceSummary[],
): Outcome[] {
  const nameOf = nameIn(devices);
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

/** The state of an outcome in one word: of its command where it has one. */
export function stateOf(outcome: Outcome, standings: ReadonlyMap<string, JobStanding>): string {
  if (outcome.refusal !== undefined) return 'refused';
  if (outcome.commandId === undefined) return 'done';
  return standings.get(outcome.commandId)?.state ?? 'queued';
}

/** "3 succeeded, 1 refused": how many outcomes are in each state, the most first. */
export function tally(states: readonly string[]): [state: string, count: number][] {
  const counts = new Map<string, number>();
  for (const state of states) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}
