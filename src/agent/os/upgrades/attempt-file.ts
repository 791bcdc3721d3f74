import { rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson } from '../files/private-file.ts';
import { upgradesIn, writeNote } from './upgrade-files.ts';

/** The attempt that was begun last and has not ended: it keeps its id over restarts of the agent. */
const Attempt = z.object({
  attemptId: z.uuid(),
  component: z.string(),
  version: z.string(),
  sha256: z.string(),
});
export type Attempt = z.infer<typeof Attempt>;

const NAME = 'attempt.json';

export async function readAttempt(dataDir: string): Promise<Attempt | undefined> {
  const kept = await readPrivateJson(path.join(upgradesIn(dataDir), NAME)).catch(() => undefined);
  return Attempt.safeParse(kept).data;
}

export const writeAttempt = (dataDir: string, attempt: Attempt): Promise<void> =>
  writeNote(dataDir, NAME, attempt);

export async function removeAttempt(dataDir: string): Promise<void> {
  await rm(path.join(upgradesIn(dataDir), NAME), { force: true });
}
