import { rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { hasCode, readPrivateJson } from '../../os/files/private-file.ts';
import { upgradesIn, writeNote } from '../../os/upgrades/upgrade-files.ts';

/** What the server offers now, and the wish of a person at the machine to install it; for the command line. */
const OfferState = z.object({
  component: z.string(),
  version: z.string(),
  /** Why it was not installed, and when that is tried again. */
  failure: z.string().optional(),
  nextTryAt: z.string().optional(),
});
export type OfferState = z.infer<typeof OfferState>;

const OFFER = 'offer.json';
const REQUEST = 'apply-request.json';

export async function readOfferState(dataDir: string): Promise<OfferState | undefined> {
  const kept = await readPrivateJson(path.join(upgradesIn(dataDir), OFFER)).catch(() => undefined);
  return OfferState.safeParse(kept).data;
}

/** Writes only what is new, because this comes with each heartbeat. */
export async function writeOfferState(dataDir: string, state: OfferState | undefined): Promise<void> {
  const known = await readOfferState(dataDir);
  if (JSON.stringify(known) === JSON.stringify(state)) return;
  if (state !== undefined) return writeNote(dataDir, OFFER, state);
  await rm(path.join(upgradesIn(dataDir), OFFER), { force: true });
}

export const requestApply = (dataDir: string): Promise<void> =>
  writeNote(dataDir, REQUEST, { at: clock.date().toISOString() });

/** Whether somebody has asked for the upgrade; a request counts once. */
export async function takeApplyRequest(dataDir: string): Promise<boolean> {
  const file = path.join(upgradesIn(dataDir), REQUEST);
  try {
    await rename(file, `${file}.taken`);
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}
