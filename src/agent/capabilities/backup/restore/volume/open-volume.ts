import {
  EngineError,
  type FileSystemReader,
  findVolume,
  type ObjectSource,
  openExt,
  openMachineIn,
  openRepository,
  volumeOf,
} from '../../../../../engine/index.ts';
import type { CommandPayload } from '../../../../../protocol/index.ts';
import { AgentError } from '../../../../core/agent-error.ts';
import type { Network } from '../../../../os/network/network.ts';
import { patient, remembering, sourceOf } from '../../../../repository/repository-source.ts';
import type { RepositoryWork } from '../../../../repository/repository-work.ts';

type Wanted = Pick<CommandPayload<'backup.image-files-restore'>, 'snapshotId' | 'volume'>;

/** A disk of several terabytes. */
const PARTS_MAX = 8_000_000;

/** The file system of a volume, read as bytes of the repository: nothing is mounted, and no program is started. */
export async function openVolume(
  { repository, options: { signal } }: RepositoryWork,
  network: Network,
  { snapshotId, volume }: Wanted,
): Promise<FileSystemReader> {
  const { password, keyHint, destination } = repository;
  const objects = sourceOf(repository, network, signal);
  const source = withGaps(
    remembering(destination.type === 'local' ? objects : patient(objects, signal)),
    signal,
  );
  const reader = await openRepository(source, { password, ...(keyHint === undefined ? {} : { keyHint }) });
  const opened = await reader.openContent(
    { snapshotId, path: volume.imagePath },
    { limits: { entries: 10, parts: PARTS_MAX }, signal },
  );
  if (opened === 'too_large' || opened.type !== 'file') {
    throw new EngineError('REPOSITORY_DAMAGED', { detail: 'The image is no file that can be read.' });
  }
  const found = findVolume(await openMachineIn(opened.content), volume);
  if ('missing' in found) {
    const { disk, partition = 'of the whole disk' } = volume;
    throw found.missing === 'disk'
      ? new AgentError('DISK_MISSING', `The image has no disk ${disk}. It has: ${found.known}.`)
      : new AgentError(
          'PARTITION_MISSING',
          `The disk ${disk} has no partition ${partition}. It has: ${found.known}.`,
        );
  }
  return openExt(volumeOf(opened.content, found.volume));
}

/** A pack that is missing is a damage of the files that are in it, and of nothing else. */
const withGaps = (source: ObjectSource, signal: AbortSignal): ObjectSource => ({
  list: (type) => source.list(type),
  get: (type, name, range) =>
    source.get(type, name, range).catch((error: unknown) => {
      signal.throwIfAborted();
      const isOfStore = error instanceof EngineError && error.code !== 'REPOSITORY_MISSING';
      if (type !== 'data' || isOfStore) throw error;
      throw new EngineError('REPOSITORY_DAMAGED', {
        detail: `The pack ${name} cannot be read.`,
        cause: error,
      });
    }),
});
