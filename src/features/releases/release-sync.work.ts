import { z } from 'zod';
import { type Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { recordAsSystem } from './publish-release.ts';
import type { ReleaseSync } from './release-sync.ts';
import { syncNotes } from './release.routes.ts';

export interface SyncJobParts {
  jobs: Jobs;
  db: Db;
  log: Logger;
  audit: Pick<AuditTrail, 'record'>;
  releaseSync: ReleaseSync;
  /** Whether releases come from GitHub automatically. */
  syncsReleases: boolean;
}

const SYNC = defineJob({
  name: 'releases.sync',
  input: z.object({}),
  result: z.object({ version: z.string().nullable(), failed: z.number() }),
  // The next one comes within the hour.
  attempts: 1,
  inCluster: 1,
});

/** Registers a new stable release of GitHub within an hour. */
export function syncReleasesHourly({ jobs, syncsReleases, ...parts }: SyncJobParts): void {
  jobs.handle(SYNC, () => syncNewest(parts));
  if (syncsReleases) jobs.schedule(SYNC, { cron: '17 * * * *', timeZone: 'UTC' }, {});
}

export async function syncNewest({
  db,
  log,
  audit,
  releaseSync,
}: Omit<SyncJobParts, 'jobs' | 'syncsReleases'>): Promise<{ version: string | null; failed: number }> {
  try {
    const fetched = await releaseSync.fetchNew();
    if (fetched === undefined) return { version: null, failed: 0 };
    const { version, failed, added } = await withSystem(db, 'register a release of GitHub', async (tx) => {
      const outcome = await releaseSync.register(tx, fetched);
      const isNews = outcome.added.length > 0 || outcome.promotion.promoted.length > 0;
      for (const note of isNews ? syncNotes(outcome) : []) {
        await recordAsSystem(tx, { audit, log }, { action: 'agent_version.sync', ...note });
      }
      return outcome;
    });
    if (failed.length > 0) log.warn({ version, failed }, 'releases.sync_incomplete');
    else log.info({ version, added: added.length }, 'releases.synced');
    return { version, failed: failed.length };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    // A failure of GitHub or the network: the next hour tries again.
    log.warn({ err: error }, 'releases.sync_failed');
    return { version: null, failed: 0 };
  }
}
