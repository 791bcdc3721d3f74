import { z } from 'zod';
import { MACHINE_PATH, MachineDescription, openMachineIn } from '../../../engine/index.ts';
import type { DetachedContext } from '../../../platform/context.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { answeringFailures } from './engine-failures.ts';
import { openSnapshot, type SnapshotQuery } from './open-snapshot.ts';
import type { RepositoryReaders } from './repository-readers.ts';

/** The description of a machine, as the archive of its image begins with it. */

export const SnapshotMachine = MachineDescription.extend({
  places: z
    .array(z.object({ name: z.string(), sizeBytes: z.number().int(), offset: z.number().int() }))
    .describe(`Where each disk stands in the only file of the snapshot, ${MACHINE_PATH}.`),
}).meta({ id: 'SnapshotMachine' });
export type SnapshotMachine = z.infer<typeof SnapshotMachine>;

/** A disk of several terabytes. */
const PARTS_MAX = 8_000_000;

export async function readMachine(
  ctx: DetachedContext,
  query: SnapshotQuery,
  readers: RepositoryReaders,
  signal: AbortSignal,
): Promise<SnapshotMachine> {
  const { reader, snapshot } = await openSnapshot(ctx, query, readers);
  if (snapshot.backupType !== 'system_image') throw notFound('Image of a machine');
  return answeringFailures(async () => {
    const opened = await reader.openContent(
      { snapshotId: snapshot.engineId, path: MACHINE_PATH },
      { limits: { entries: 10, parts: PARTS_MAX }, signal },
    );
    if (opened === 'too_large' || opened.type !== 'file') {
      throw new AppError('conflict', 'The snapshot holds no image that can be read.');
    }
    const { content } = opened;
    const { description, disks } = await openMachineIn(content);
    return { ...description, places: disks };
  });
}
