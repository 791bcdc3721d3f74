import { rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { readPrivateJson } from '../../agent/os/files/private-file.ts';
import { Trial, TrialEnd } from '../../agent/os/upgrades/trial-file.ts';
import { upgradesIn, writeNote } from '../../agent/os/upgrades/upgrade-files.ts';
import { type Cause, endedAfterTrial } from './cause.ts';

/**
 * The day after a trial. A release can be healthy in its trial and end again and again afterwards, each time after it has
 * run for a while. Its ends are counted, and compared with those of the release before it.
 */

const DAY_MS = 24 * 3_600_000;
/** So many ends more than the release before had in a day are a failure. One or two may have another cause. */
const MORE_THAN_BEFORE = 3;
const ENDS_KEPT = 200;

const Ends = z.object({
  ends: z.array(z.object({ script: z.string(), at: z.number() })).max(ENDS_KEPT),
});
type Ends = z.infer<typeof Ends>['ends'];

const Observation = z.object({
  trial: Trial,
  /** When the trial ended, by the clock of the machine. */
  since: z.number(),
  /** How often the release before ended within a day. */
  before: z.number().int().nonnegative(),
  count: z.number().int().nonnegative(),
  /** The last of the ends. */
  ends: z.array(TrialEnd).max(MORE_THAN_BEFORE),
});
export type Observation = z.infer<typeof Observation>;

const ENDS = 'agent-ends.json';
const OBSERVATION = 'observation.json';

const read = async (dataDir: string, name: string): Promise<unknown> =>
  readPrivateJson(path.join(upgradesIn(dataDir), name)).catch(() => undefined);

/** The ends within a day. Those that lie in the future are from before the clock was set back. Pure. */
const recent = (ends: Ends, now: number): Ends =>
  ends.filter(({ at }) => at > now - DAY_MS && at <= now).slice(-ENDS_KEPT);

/** @param script  the version that has ended by itself, or the embedded script */
export async function recordEnd(dataDir: string, script: string): Promise<void> {
  const now = clock.now();
  const known = Ends.safeParse(await read(dataDir, ENDS)).data?.ends ?? [];
  await writeNote(dataDir, ENDS, { ends: recent([...known, { script, at: now }], now) });
}

/** Begins the day after the trial. Done again, it begins anew. @param former  the script that ran before */
export async function observe(dataDir: string, trial: Trial, former: string): Promise<void> {
  const now = clock.now();
  const known = Ends.safeParse(await read(dataDir, ENDS)).data?.ends ?? [];
  const before = recent(known, now).filter(({ script }) => script === former).length;
  const begun: Observation = { trial, since: now, before, count: 0, ends: [] };
  await writeNote(dataDir, OBSERVATION, begun);
}

export async function observed(dataDir: string, version: string): Promise<Observation | undefined> {
  const { data } = Observation.safeParse(await read(dataDir, OBSERVATION));
  if (data?.trial.version !== version || isOver(data, clock.now())) return undefined;
  return data;
}

/** Where another release than this is observed, that goes on. */
export async function endObservation(dataDir: string, { version }: Pick<Trial, 'version'>): Promise<void> {
  if ((await observed(dataDir, version)) === undefined) return;
  await rm(path.join(upgradesIn(dataDir), OBSERVATION), { force: true });
}

/** Counts an end of the observed release. Returns why it is rolled back, where it has ended too often. */
export async function countEnd(
  dataDir: string,
  observation: Observation,
  end: TrialEnd,
): Promise<Cause | undefined> {
  const counted = afterEnd(observation, end);
  await writeNote(dataDir, OBSERVATION, counted);
  return verdict(counted, clock.now());
}

/** Pure. A clock that was set back makes the day longer, and never shorter. */
export const isOver = ({ since }: Pick<Observation, 'since'>, now: number): boolean => now - since > DAY_MS;

/** Pure. */
export const afterEnd = (observation: Observation, { how, isSilent, output }: TrialEnd): Observation => ({
  ...observation,
  count: observation.count + 1,
  ends: [...observation.ends, { how, isSilent, output }].slice(-MORE_THAN_BEFORE),
});

/** Pure. */
export function verdict({ count, before, since, ends }: Observation, now: number): Cause | undefined {
  if (count < before + MORE_THAN_BEFORE) return undefined;
  return endedAfterTrial({ ends, count, withinMs: Math.max(0, now - since), before });
}
