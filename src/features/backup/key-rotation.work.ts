import type { z } from 'zod';
import { EngineError } from '../../engine/index.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { BackupRepository, endAbandoned } from '../backup-store/index.ts';
import { EncryptionKey, EncryptionKeyVersion, passwordOf } from './key.model.ts';
import { endRotations, nextBehind } from './key.queries.ts';
import { ROTATE, type RotationProgress } from './key.service.ts';
import {
  addKey,
  keepOneKey,
  openStoredConfig,
  type OwnAccessParts,
  withOwnAccess,
  exclusively,
} from './repository-access.ts';

/**
 * Opens a repository to the newest version of its key, and closes it to all others. It can be interrupted anywhere and
 * repeated: at every moment the version that the record names opens it. Throws `conflict` while a device writes, which
 * has the earlier version; the first half is done then. A device that went away in the middle of a backup loses its
 * access after an hour, so that a rotation ends without it.
 */
export async function rotateRepository(
  parts: OwnAccessParts,
  repositoryId: string,
  signal: AbortSignal,
): Promise<void> {
  const { repository, version, password } = await readVersions(parts, repositoryId);
  assertGoing(signal);
  if (repository.keyVersion !== version) {
    const engineKeyId = await withOwnAccess(parts, repository, {}, (access, now) =>
      addKey(parts, access, { now, next: password, version }),
    );
    await withSystem(parts.db, 'note the version of the key that opens a repository', (tx) =>
      BackupRepository.query(tx)
        .findById(repositoryId)
        .patch({ keyVersion: version, engineKeyId, hasOldKeys: true }),
    );
  } else if (!repository.hasOldKeys) return;

  await withSystem(parts.db, 'end the access of a device that went away', (tx) =>
    endAbandoned(tx, repositoryId),
  );
  await exclusively(parts.db, repositoryId, signal, async (stop) => {
    const { keyId } = await openStoredConfig(parts, repositoryId, password);
    assertGoing(stop);
    await keepOneKey(parts, repositoryId, keyId);
  });
  await withSystem(parts.db, 'note that one version of the key opens a repository', (tx) =>
    BackupRepository.query(tx)
      .findById(repositoryId)
      .where('key_version', version)
      .patch({ hasOldKeys: false }),
  );
}

function assertGoing(signal: AbortSignal): void {
  if (signal.aborted) throw new EngineError('CANCELLED');
}

async function readVersions({ db, secrets }: OwnAccessParts, repositoryId: string) {
  return withSystem(
    db,
    'rotate the key of a repository, which can be of another organization',
    async (tx) => {
      const repository = await BackupRepository.query(tx).findById(repositoryId);
      const key = await EncryptionKey.query(tx).findById(repository?.encryptionKeyId ?? repositoryId);
      if (repository === undefined || key === undefined) throw notFound('Repository');
      const newest = await EncryptionKeyVersion.query(tx).findOne({ key_id: key.id, version: key.version });
      if (newest === undefined) throw notFound('Encryption key version');
      return { repository, version: key.version, password: passwordOf(secrets, newest) };
    },
  );
}

export function addRotationJobs(jobs: Jobs, parts: OwnAccessParts): void {
  jobs.handle(ROTATE, async ({ signal, log, saveProgress }) => {
    const progress = await rotateAll(parts, { signal, log, saveProgress });
    await withSystem(parts.db, 'end the rotations that have reached every repository', endRotations);
    return progress;
  });
  jobs.schedule(ROTATE, { cron: '*/5 * * * *', timeZone: 'UTC' }, {});
}

interface RoundOptions {
  signal: AbortSignal;
  log: Logger;
  saveProgress: (progress: z.infer<typeof RotationProgress>) => Promise<void>;
}

export async function rotateAll(
  parts: OwnAccessParts,
  { signal, log, saveProgress }: RoundOptions,
): Promise<z.infer<typeof RotationProgress>> {
  const progress = { done: 0, postponed: 0 };
  for (let after = NONE; !signal.aborted; ) {
    const id = await withSystem(parts.db, 'find a repository whose key was rotated', (tx) =>
      nextBehind(tx, after),
    );
    if (id === undefined) break;
    after = id;
    try {
      await rotateRepository(parts, id, signal);
      progress.done += 1;
    } catch (error) {
      if (!(error instanceof EngineError || error instanceof AppError)) throw error;
      // One repository that is busy or broken does not hold up the others.
      log.warn({ repositoryId: id, code: error.code, err: error }, 'backup.rotation_postponed');
      progress.postponed += 1;
    }
    await saveProgress(progress);
  }
  return progress;
}

const NONE = '00000000-0000-0000-0000-000000000000';
