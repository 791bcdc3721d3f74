import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import type { ReleaseFiles } from './release-files.ts';
import { lockReleases } from './release-lock.ts';
import { AgentRelease } from './release.model.ts';

/**
 * Removes a file that no release has any more. A file that cannot be removed stays: the release is deleted all the same.
 */
export async function removeIfUnused(
  { db, files, log }: { db: Db; files: ReleaseFiles; log: Logger },
  sha256: string,
): Promise<void> {
  try {
    await withSystem(db, 'remove the file of a deleted release', async (tx) => {
      // Without the lock, an upload of the same file could be registered between the question and the removal.
      await lockReleases(tx);
      const user = await AgentRelease.query(tx).findOne({ sha256, source: 'local' });
      if (user === undefined) await files.remove(sha256);
    });
  } catch (error) {
    log.warn({ err: error, sha256 }, 'releases.file_not_removed');
  }
}
