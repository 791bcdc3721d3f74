import { z } from 'zod';
import { MACHINE_PATH, MachineDescription, openMachineIn } from '../../../engine/index.ts';
import type { DetachedContext } from '../../../platform/context.ts';
import { answeringFailures } from './engine-failures.ts';
import { imagePathIn, noImage } from './images/find-image.ts';
import { openSnapshot, type SnapshotQuery } from './open-snapshot.ts';
import type { MachineQuery } from './reading.schema.ts';
import type { RepositoryReaders } from './repository-readers.ts';

/** The description of a machine, as the archive of its image begins with it. */

export const SnapshotMachine = MachineDescription.extend({
  places: z
    .array(z.object({ name: z.string(), sizeBytes: z.number().int(), offset: z.number().int() }))
    .describe('Where each disk stands in the file.'),
  file: z.string().describe(`The archive in the snapshot: ${MACHINE_PATH}, or one of several machines.`),
}).meta({ id: 'SnapshotMachine' });
export type SnapshotMachine = z.infer<typeof SnapshotMachine>;

/** A disk of several terabytes. */
const PARTS_MAX = 8_000_000;

export async function readMachine(
  ctx: DetachedContext,
  { machine, ...query }: SnapshotQuery & MachineQuery,
  readers: RepositoryReaders,
  signal: AbortSignal,
): Promise<SnapshotMachine> {
  const { reader, snapshot } = await openSnapshot(ctx, query, readers);
  return answeringFailures(async () => {
    const path = await imagePathIn(reader, snapshot, { machine, field: 'query.machine', signal });
    const opened = await reader.openContent(
      { snapshotId: snapshot.engineId, path },
      { limits: { entries: 10, parts: PARTS_MAX }, signal },
    );
    if (opened === 'too_large' || opened.type !== 'file') throw noImage();
    const { content } = opened;
    const { description, disks } = await openMachineIn(content);
    return { ...description, places: disks, file: path };
  });
}
