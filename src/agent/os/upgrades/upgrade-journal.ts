import { mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { UpgradableComponent } from '../../../protocol/index.ts';
import { appendLine } from '../files/line-file.ts';
import { upgradesIn } from './upgrade-files.ts';

/**
 * What happened to the upgrades of this machine, for people: one line a step, written to the disk when the step is done.
 * No program decides by it, because a power cut can come between a step and its line. The files decide.
 */
export const UPGRADE_STEPS = [
  // By the agent.
  'download_started',
  'download_checked',
  'staged',
  'install_requested',
  // By the watchdog.
  'trial_recorded',
  'switched',
  'start_counted',
  'healthy',
  'proven',
  'settled',
  'rolling_back',
  'switched_back',
  'rolled_back',
] as const;
export type UpgradeStep = (typeof UPGRADE_STEPS)[number];

const Line = z.object({
  at: z.string(),
  step: z.enum(UPGRADE_STEPS),
  component: UpgradableComponent,
  version: z.string(),
  attemptId: z.string(),
  detail: z.string().optional(),
});
export type JournalLine = z.infer<typeof Line>;

const LIMITS = { maxBytes: 256 * 1024, formerFiles: 1, isDurable: true };
const fileIn = (dataDir: string) => path.join(upgradesIn(dataDir), 'upgrades.journal');

/** Appends a line. A failure is ignored: a journal that cannot be written must not stop an upgrade or a roll-back. */
export function note(dataDir: string, line: Omit<JournalLine, 'at'>): void {
  const json = JSON.stringify({ at: clock.date().toISOString(), ...line });
  try {
    mkdirSync(upgradesIn(dataDir), { recursive: true, mode: 0o700 });
    appendLine(fileIn(dataDir), `${checksum(json)} ${json}`, LIMITS);
  } catch {
    // Full disk, or no rights. The files have what counts.
  }
}

/** The lines that can be read, the oldest first. */
export async function readJournal(dataDir: string): Promise<JournalLine[]> {
  const text = await readFile(fileIn(dataDir), 'utf8').catch(() => '');
  return text.split('\n').flatMap((line) => {
    const json = line.slice(9);
    if (line.slice(0, 9) !== `${checksum(json)} `) return [];
    const found = Line.safeParse(JSON.parse(json));
    return found.success ? [found.data] : [];
  });
}

const checksum = (json: string) => crc32(json).toString(16).padStart(8, '0');
