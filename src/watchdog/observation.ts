import { rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock, DAY_MS } from '../clock.ts';
import { readPrivateJson } from '../agent/os/files/private-file.ts';
import { Trial, TrialEnd, upgradesIn, writeNote } from '../agent/os/releases/upgrade-files.ts';
import { shortened } from '../protocol/index.ts';

/**
 * Observes a release for a day after its trial: it can be healthy in the trial and later exit again and again, each
 * time after a while. Its exits are counted and compared with those of the former release.
 */

/** This many more exits within a day than the former release had are a failure. One or two may have another cause. */
const MORE_THAN_BEFORE = 3;
const ENDS_KEPT = 200;

const Ends = z.object({
  ends: z.array(z.object({ script: z.string(), at: z.number() })).max(ENDS_KEPT),
});
type Ends = z.infer<typeof Ends>['ends'];

const Observation = z.object({
  trial: Trial,
  /** When the trial ended, in the time of this machine. */
  since: z.number(),
  /** How often the former release exited within a day. */
  before: z.number().int().nonnegative(),
  count: z.number().int().nonnegative(),
  /** The most recent exits. */
  ends: z.array(TrialEnd).max(MORE_THAN_BEFORE),
});
export type Observation = z.infer<typeof Observation>;

const ENDS = 'agent-ends.json';
const OBSERVATION = 'observation.json';

const read = async (dataDir: string, name: string): Promise<unknown> =>
  readPrivateJson(path.join(upgradesIn(dataDir), name)).catch(() => undefined);

/** The exits within a day. Those in the future were recorded before the clock was set back. Pure. */
const recent = (ends: Ends, now: number): Ends =>
  ends.filter(({ at }) => at > now - DAY_MS && at <= now).slice(-ENDS_KEPT);

/** @param script  the version that has exited by itself, or the embedded script */
export async function recordEnd(dataDir: string, script: string): Promise<void> {
  const now = clock.now();
  const known = Ends.safeParse(await read(dataDir, ENDS)).data?.ends ?? [];
  await writeNote(dataDir, ENDS, { ends: recent([...known, { script, at: now }], now) });
}

/** Starts the observation after a trial, or restarts it. @param former  the script that ran before */
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

/** An observation of another release continues. */
export async function endObservation(dataDir: string, { version }: Pick<Trial, 'version'>): Promise<void> {
  if ((await observed(dataDir, version)) === undefined) return;
  await rm(path.join(upgradesIn(dataDir), OBSERVATION), { force: true });
}

/** Counts an exit of the observed release. Returns the reason for a roll-back if there were too many. */
export async function countEnd(
  dataDir: string,
  observation: Observation,
  end: TrialEnd,
): Promise<Cause | undefined> {
  const counted = afterEnd(observation, end);
  await writeNote(dataDir, OBSERVATION, counted);
  return verdict(counted, clock.now());
}

/** Pure. If the clock was set back, the day is longer, never shorter. */
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

/** The reason why a release is not used, for the history, the alert and the local log. Pure. */
interface Cause {
  code: string;
  message: string;
}

/** The longest message of a report. */
const MESSAGE_MAX = 2000;

/** The sentence comes first, because only the first line is shown if space is limited. */
export function withOutput(sentence: string, output: readonly string[]): string {
  const text = output.length === 0 ? sentence : `${sentence}\nLast output:\n${output.join('\n')}`;
  return shortened(text, MESSAGE_MAX);
}

/** @param starts  how often it was started: more than there are exits if the watchdog was ended as well */
export function endedInTrial(starts: number, ends: readonly TrialEnd[]): Cause {
  const counted = `The release ended ${times(starts)} during its trial`;
  if (ends.length === 0) {
    return {
      code: 'CRASHED',
      message: `${counted}, and its watchdog with it, so the reason is unknown.`,
    };
  }
  const last = ends.at(-1);
  return {
    code: codeOf(ends),
    message: withOutput(`${counted}. ${howTheyEnded(ends)}`, last?.output ?? []),
  };
}

/** A release that was healthy in its trial, and exits more often than the former one. */
function endedAfterTrial(facts: {
  ends: readonly TrialEnd[];
  count: number;
  withinMs: number;
  before: number;
}): Cause {
  const { ends, count, withinMs, before } = facts;
  const sentence = `The release ended ${times(count)} within ${duration(withinMs)} after its trial; the one before it ended ${times(before)} in the day before. ${howTheyEnded(ends)}`;
  return { code: codeOf(ends), message: withOutput(sentence, ends.at(-1)?.output ?? []) };
}

const codeOf = (ends: readonly TrialEnd[]) => (ends.every(({ isSilent }) => isSilent) ? 'HUNG' : 'CRASHED');

/** Each kind of exit once, the most recent first. */
function howTheyEnded(ends: readonly TrialEnd[]): string {
  return [...new Set(ends.map(({ how }) => how).reverse())].join(' Before: ');
}

const times = (count: number) => (count === 1 ? 'once' : count === 0 ? 'not once' : `${count} times`);

function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} minutes` : `${Math.round(minutes / 60)} hours`;
}
