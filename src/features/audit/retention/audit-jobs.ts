import { z } from 'zod';
import type { Db } from '../../../platform/db/pool.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Logger } from '../../../platform/logger.ts';
import { NameIndexCompactor } from '../name-index/name-index-compactor.ts';
import type { SigningKeys } from '../storage/signing-keys.ts';
import { createEntryArchive } from './archive.ts';
import { AuditPruner, PruneResult } from './audit-pruner.ts';

const DAILY = {
  input: z.object({}),
  attempts: 3,
  backOff: { firstMs: 300_000, longestMs: 3_600_000 },
  inCluster: 1,
  // Both work in short transactions, so what an aborted run has done stays done.
  resumes: true,
};
const PRUNE = defineJob({ ...DAILY, name: 'audit.prune', result: PruneResult });
const COMPACT = defineJob({
  ...DAILY,
  name: 'audit.compact-names',
  result: z.object({ compacted: z.number() }),
});

interface Parts {
  jobs: Jobs;
  db: Db;
  auditKeys: SigningKeys;
  /** Of the role that may remove entries; without it they stay. */
  auditAdminUrl: string | undefined;
  /** Where entries are copied to before they are removed. */
  auditArchive: Parameters<typeof createEntryArchive>[2] | undefined;
  log: Logger;
}

/** Adds the daily pruning of the audit trail and the daily compaction of its name index. */
export function addAuditJobs({ jobs, db, auditKeys: keys, auditAdminUrl, auditArchive, log }: Parts): void {
  const compactor = new NameIndexCompactor({ db, log });
  jobs.handle(COMPACT, async ({ signal }) => {
    const compacted = await compactor.compact(signal);
    signal.throwIfAborted();
    log.info({ compacted }, 'audit.names_compacted');
    return { compacted };
  });
  jobs.schedule(COMPACT, { cron: '37 2 * * *', timeZone: 'UTC' }, {});

  if (auditAdminUrl === undefined) {
    log.warn({ missing: 'AUDIT_ADMIN_DATABASE_URL' }, 'audit.cleanup_off');
    return;
  }
  const archive = auditArchive === undefined ? undefined : createEntryArchive(db, keys, auditArchive);
  const pruner = new AuditPruner({ db, adminUrl: auditAdminUrl, keys, archive, compactor, log });
  jobs.handle(PRUNE, async ({ signal }) => {
    const result = await pruner.prune(signal);
    signal.throwIfAborted();
    log.info(result, 'audit.old_removed');
    return result;
  });
  jobs.schedule(PRUNE, { cron: '7 3 * * *', timeZone: 'UTC' }, {});
}
