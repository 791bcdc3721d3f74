import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type ProofDevice, STUCK_MS } from './device.ts';
import { strike, type Strike, type Victim } from './kills.ts';
import type { Dice } from './settings.ts';
import type { World } from './world.ts';
import { eventually } from '../../../../support/eventually.ts';

/** Backups and restores in whose middle something is killed. */

const FILES = 40;
const FILE_BYTES = 1_500_000;

/** Some files are new, some go: each backup has something to send. */
export async function changeSource(folder: string, round: number, dice: Dice): Promise<void> {
  await mkdir(folder, { recursive: true });
  const share = round === 0 ? FILES : FILES / 4;
  for (let n = 0; n < share; n++) {
    const name = path.join(folder, `file-${round === 0 ? n : dice.below(FILES)}`);
    await writeFile(name, randomBytes(dice.below(FILE_BYTES)));
  }
  if (round > 0) await rm(path.join(folder, `file-${dice.below(FILES)}`), { force: true });
}

export interface Round {
  id: string;
  status: string;
  error: string | null;
  snapshotId: string | null;
  strikes: Strike[];
  seconds: number;
}

/** So late at most after the work has begun. A backup of the sources above takes a few seconds. */
const LATEST_MS = 4000;

/**
 * A backup, and one or two kills at random times of it: before it begins, while it is handed over, while it runs, at its
 * end.
 */
export async function backUpUnderFire(
  world: World,
  device: ProofDevice,
  victims: readonly Victim[],
  dice: Dice,
): Promise<Round> {
  const startedAt = Date.now();
  const id = await device.order();
  const strikes: Strike[] = [];
  const waitsForStart = dice.below(4) > 0;
  for (let n = dice.below(4) === 0 ? 2 : 1; n > 0; n--) {
    if (waitsForStart) await begun(() => device.job(id));
    await new Promise((resolve) => setTimeout(resolve, dice.below(LATEST_MS)));
    strikes.push(await strike(world, device, dice.pick(victims), dice));
  }
  const end = await device.ended(id);
  return {
    id,
    status: end.status,
    error: end.error?.code ?? null,
    snapshotId: end.snapshotId,
    strikes,
    seconds: Math.round((Date.now() - startedAt) / 1000),
  };
}

export async function restoreUnderFire(
  world: World,
  device: ProofDevice,
  order: { snapshotId: string; targetPath: string },
  { victims, dice }: { victims: readonly Victim[]; dice: Dice },
): Promise<Round> {
  const startedAt = Date.now();
  const id = await device.orderRestore(order);
  if (dice.below(4) > 0) await begun(() => device.restore(id));
  await new Promise((resolve) => setTimeout(resolve, dice.below(LATEST_MS / 2)));
  const strikes = [await strike(world, device, dice.pick(victims), dice)];
  let end = await device.restored(id);
  // What a person does with a restore that was interrupted.
  for (let again = 0; end.status !== 'completed' && again < 3; again++) {
    await eventually(
      () => world.ask('GET', `/devices/${device.deviceId}`),
      ({ status }) => status === 'online',
      STUCK_MS,
    );
    await world.ask('POST', `/backup/restore/${id}/rerun`, {});
    end = await device.restored(id);
  }
  return {
    id,
    status: end.status,
    error: end.error?.code ?? null,
    snapshotId: end.snapshotId,
    strikes,
    seconds: Math.round((Date.now() - startedAt) / 1000),
  };
}

/** Or over already. */
const begun = (read: () => Promise<{ status: string }>) =>
  eventually(read, ({ status }) => status !== 'pending', STUCK_MS);
