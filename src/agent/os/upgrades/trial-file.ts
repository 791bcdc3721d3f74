import { rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { UpgradableComponent } from '../../../protocol/index.ts';
import { readPrivateJson, syncFolder } from '../files/private-file.ts';
import { ReleaseVersion } from '../installation/release-version.ts';
import { upgradesIn, writeNote } from './upgrade-files.ts';

export const TrialEnd = z.object({
  how: z.string(),
  isSilent: z.boolean(),
  output: z.array(z.string()).max(20),
});

export type TrialEnd = z.infer<typeof TrialEnd>;

/** A release that must prove itself. The file exists from before the switch until everything about the end is written. */
export const Trial = z.object({
  component: UpgradableComponent,
  version: ReleaseVersion,
  /** What ran before and runs again if this one fails; `null`: the agent that came with the executable. */
  from: ReleaseVersion.nullable(),
  /** The release that `from` reported, for people: it is known also where that is the embedded one. */
  fromVersion: z.string().max(50),
  attemptId: z.uuid(),
  sha256: z.string(),
  /** Written before each start, so that a release that takes the machine down is started only so often. */
  starts: z.number().int().nonnegative(),
  /** What the release before could do, so that this one must be able to do it as well. */
  before: z.array(z.string().max(50)).max(20).optional(),
  /** How the starts have ended that its watchdog has seen end. */
  ends: z.array(TrialEnd).max(10).optional(),
  /** The decision. Whatever it takes to carry it out is repeated until the file is gone. */
  verdict: z
    .discriminatedUnion('is', [
      z.object({ is: z.literal('healthy') }),
      z.object({ is: z.literal('rolled_back'), code: z.string(), message: z.string() }),
    ])
    .optional(),
});
export type Trial = z.infer<typeof Trial>;

const NAME = 'trial.json';

/** `undefined` where nothing is on trial, and where the file is not one of ours. */
export async function readTrial(dataDir: string): Promise<Trial | undefined> {
  const kept = await readPrivateJson(path.join(upgradesIn(dataDir), NAME)).catch(() => undefined);
  return Trial.safeParse(kept).data;
}

export const writeTrial = (dataDir: string, trial: Trial): Promise<void> => writeNote(dataDir, NAME, trial);

export async function removeTrial(dataDir: string): Promise<void> {
  await rm(path.join(upgradesIn(dataDir), NAME), { force: true });
  await syncFolder(upgradesIn(dataDir));
}
