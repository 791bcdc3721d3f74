import type { DetachedContext } from '../../../platform/context.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import type { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { findSnapshot } from '../snapshots/snapshot.service.ts';
import { answeringFailures } from './engine-failures.ts';
import type { OpenedRepository, RepositoryReaders } from './repository-readers.ts';

/** A snapshot that the caller may see, with its repository as it is or was. */
export interface SnapshotState {
  snapshot: BackupSnapshot;
  repository: BackupRepository;
  asOf: Date | null;
}

export interface SnapshotQuery {
  id: string;
  asOf?: Date | undefined;
}

/** Throws `conflict` where the snapshot was not in the repository at that time. */
export async function findState(ctx: DetachedContext, { id, asOf }: SnapshotQuery): Promise<SnapshotState> {
  return ctx.withTenant(async (tenant) => {
    const snapshot = await findSnapshot(tenant, id);
    const repository = await BackupRepository.query(tenant.tx).findById(snapshot.repositoryId);
    if (repository === undefined) throw notFound('Repository');
    assertPresent(snapshot, asOf);
    return { snapshot, repository, asOf: asOf ?? null };
  });
}

export function assertPresent(
  { receivedAt, removedAt }: Pick<BackupSnapshot, 'receivedAt' | 'removedAt'>,
  asOf: Date | undefined,
): void {
  if (asOf !== undefined && receivedAt > asOf) {
    throw new AppError('conflict', `The store received the snapshot later, at ${receivedAt.toISOString()}.`);
  }
  if (removedAt !== null && (asOf === undefined || removedAt <= asOf)) {
    throw new AppError(
      'conflict',
      `The snapshot was removed at ${removedAt.toISOString()}. Ask with asOf for a time before that.`,
    );
  }
}

/** The same with a reader of it. */
export async function openSnapshot(
  ctx: DetachedContext,
  query: SnapshotQuery,
  readers: RepositoryReaders,
): Promise<SnapshotState & OpenedRepository> {
  return openState(await findState(ctx, query), readers);
}

export async function openState(
  state: SnapshotState,
  readers: RepositoryReaders,
): Promise<SnapshotState & OpenedRepository> {
  const opened = await answeringFailures(() => readers.open(state.repository, state.asOf));
  return { ...state, ...opened };
}
