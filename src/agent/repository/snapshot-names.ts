import { openRepository, type ReadNames, type RepositoryReader } from '../../engine/index.ts';
import { AgentError } from '../core/agent-error.ts';
import type { Network } from '../os/network/network.ts';
import { patient, remembering, sourceOf } from './repository-source.ts';
import type { RepositoryWork } from './repository-work.ts';

/**
 * Reads names of a snapshot that are not UTF-8, which restic does not print. The repository is opened when the first one is
 * met, because that reads its index.
 */
export function snapshotNames(
  { repository, options: { signal } }: RepositoryWork,
  network: Network,
  snapshotId: string,
): ReadNames {
  let opening: Promise<RepositoryReader> | undefined;
  const open = () => {
    const { password, keyHint, destination } = repository;
    if (destination.type === 's3') {
      throw new AgentError(
        'DESTINATION_DENIED',
        'The snapshot has names that are not UTF-8. Restore it from the bucket with restic itself.',
      );
    }
    const objects = sourceOf(repository, network, signal);
    const source = remembering(destination.type === 'local' ? objects : patient(objects, signal));
    return openRepository(source, { password, ...(keyHint === undefined ? {} : { keyHint }) });
  };
  return async (path) => {
    opening ??= open();
    const { entries } = await (await opening).listFolder({ snapshotId, path, offset: 0, limit: Infinity });
    return entries.map(({ name }) => name);
  };
}
