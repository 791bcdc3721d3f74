import { stat } from 'node:fs/promises';
import { clock } from '../../../clock.ts';
import { EngineError, type MachineDescription, type Repository } from '../../../engine/index.ts';
import type { CommandOutput, CommandPayload } from '../../../protocol/index.ts';
import type { DurableContext } from '../../work/durable-handler.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { withRepository } from '../../repository/repository-work.ts';
import { storeMachine } from '../../repository/store-machine.ts';
import { describeThisMachine } from './describe-machine.ts';
import { chooseDisks, type FoundDisk } from './find-disks.ts';
import { openDisk, type OpenedDisk } from './open-disks.ts';
import { clearPoints, takePoint } from './points/consistent-point.ts';

type Output = CommandOutput<'backup.image'>;

/** Makes one snapshot of whole disks, in the form of docs/decisions/machine-images.md. */
export function runImageBackup(parts: BackupParts) {
  const isCleared = clearPoints(parts).catch((error: unknown) => {
    parts.warn(`What an earlier image backup has left could not be removed: ${String(error)}`);
  });
  return { stopMs: STOP_MS, run: imageBackup(parts, isCleared) };
}

const imageBackup =
  (parts: BackupParts, isCleared: Promise<void>) =>
  (payload: CommandPayload<'backup.image'>, context: DurableContext<'backup.image'>): Promise<Output> =>
    withRepository(parts, { payload, context }, async (use) => {
      await isCleared;
      const { repository, options } = use;
      const { jobId, host, disks, excludeDisks } = payload;
      const takenAt = clock.date().toISOString();
      const chosen = await chooseDisks({ disks, excludeDisks });
      await assertElsewhere(repository, chosen);
      const opened: OpenedDisk[] = [];
      context.progress({ phase: 'preparing' });
      const point = await takePoint(chosen, { ...parts, jobId }, options.signal);
      try {
        for (const disk of chosen) {
          opened.push(await openDisk(disk, options.signal, point.regions.get(disk.path)));
        }
        const machine = await describe({ host, takenAt, consistency: point.consistency }, chosen, opened);
        return await storeMachine(use, payload, {
          machine,
          contentOf: ({ name }) => diskNamed(opened, name).content(),
          confirm: async () => {
            for (const disk of opened) await disk.confirm();
            await point.confirm();
          },
          onProgress: context.progress,
        });
      } finally {
        for (const disk of opened) await disk.close();
        await point.release();
      }
    });

async function describe(
  { host, takenAt, consistency }: Pick<MachineDescription, 'takenAt' | 'consistency'> & { host: string },
  chosen: readonly FoundDisk[],
  opened: readonly OpenedDisk[],
): Promise<MachineDescription> {
  const isOwn = chosen.some(({ isFile }) => !isFile);
  const facts = await describeThisMachine(host, isOwn);
  return {
    format: 'muster-machine',
    version: 1,
    source: 'disk',
    takenAt,
    ...facts,
    bootMode: facts.bootMode ?? bootModeOf(opened),
    consistency,
    disks: opened.map(({ description }) => description),
  };
}

const EFI_SYSTEM = 'C12A7328-F81F-11D2-BA4B-00A0C93EC93B';

/** By what lies on the disks. Null where they start in both ways, or in none. */
function bootModeOf(disks: readonly OpenedDisk[]): MachineDescription['bootMode'] {
  const hasEfi = disks.some(({ description }) =>
    description.partitionTable?.partitions.some(({ type }) => type === EFI_SYSTEM || type === 'ef'),
  );
  const hasBios = disks.some(({ hasBootCode }) => hasBootCode);
  if (hasEfi === hasBios) return null;
  return hasEfi ? 'uefi' : 'bios';
}

function diskNamed(disks: readonly OpenedDisk[], name: string): OpenedDisk {
  const found = disks.find(({ description }) => description.name === name);
  if (found === undefined) throw new Error(`no disk ${name} was opened`);
  return found;
}

/** A repository that grows on the disk that is being read would be read as well. */
async function assertElsewhere({ destination }: Repository, disks: readonly FoundDisk[]): Promise<void> {
  if (destination.type !== 'local') return;
  // One that is missing is reported by restic.
  const where = await stat(destination.path, { bigint: true }).catch(() => undefined);
  if (where === undefined) return;
  const { dev } = where;
  const number = `${(dev >> 8n) & 0xfffn}:${(dev & 0xffn) | ((dev >> 12n) & 0xfff00n)}`;
  const found = disks.find(({ numbers }) => numbers.includes(number));
  if (found === undefined) return;
  throw new EngineError('SOURCE_UNREADABLE', {
    message: `The destination of the backup lies on ${found.name}, which is to be backed up. Choose another one.`,
  });
}
