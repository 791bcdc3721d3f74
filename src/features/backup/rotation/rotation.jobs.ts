import type { z } from 'zod';
import { EngineError } from '../../../engine/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Logger } from '../../../platform/logger.ts';
import type { OwnAccessParts } from '../access/make-repository.ts';
import { ROTATE, type RotationProgress } from '../keys/rotate-job.ts';
import { rotateRepository } from './rotate-repository.ts';

export function addRotationJobs(jobs: Jobs, parts: OwnAccessParts): void {
  jobs.handle(ROTATE, async ({ signal, log, saveProgress }) => {
    const progress = await rotateAll(parts, { signal, log, saveProgress });
    await endRotations(parts.db);
    return progress;
  });
  jobs.schedule(ROTATE, { cron: '*/5 * * * *', timeZone: 'UTC' }, {});
}

const IS_BEHIND = `r.provider = 'server' and r.initialized_at is not null
  and (r.key_version < k.version or r.has_old_keys)`;

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
    const id = await nextBehind(parts.db, after);
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

const nextBehind = (db: Db, after: string): Promise<string | undefined> =>
  withSystem(db, 'find a repository whose key was rotated', async (tx) => {
    const { rows } = await tx.raw<{ rows: { id: string }[] }>(
      `select r.id from backup_repositories r join backup_encryption_keys k on k.id = r.encryption_key_id
      where r.id > ? and k.version > 1 and ${IS_BEHIND} order by r.id limit 1`,
      [after],
    );
    return rows[0]?.id;
  });

/** A key is `active` again when every repository that the server reaches has its newest version only. */
export const endRotations = (db: Db): Promise<void> =>
  withSystem(db, 'end the rotations that have reached every repository', async (tx) => {
    await tx.raw(
      `update backup_encryption_keys k set status = 'active', updated_at = now() where k.status = 'rotating'
        and not exists (select from backup_repositories r where r.encryption_key_id = k.id and ${IS_BEHIND})`,
    );
  });
