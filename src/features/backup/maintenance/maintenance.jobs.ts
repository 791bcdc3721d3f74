import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { EngineError } from '../../../engine/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { defineJob, PermanentJobFailure } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { type ReconciliationParts, reconcileSnapshots } from '../reconciliation/reconcile-snapshots.ts';
import { pruneRepository } from './prune.ts';
import { findOutdated, findDuePrune, markRemoved } from './retention.service.ts';
import type { SetAsideParts } from './set-aside.ts';

const DAILY = defineJob({
  name: 'backup.retention',
  input: z.object({}),
  result: z.object({ repositories: z.number() }),
  inCluster: 1,
});

/** A backup that is running, or a server that was killed, is waited for: nine attempts take about eight hours. */
export const RETAIN = defineJob({
  name: 'backup.retain',
  input: z.object({ repositoryId: z.uuid() }),
  result: z.object({ removed: z.number(), pruned: z.boolean() }),
  attempts: 9,
  backOff: { firstMs: 120_000, longestMs: 7_200_000 },
  inCluster: 4,
});

/** Every day: removes the snapshots that retention does not keep, and then the data that only they needed. */
type MaintenanceParts = SetAsideParts & ReconciliationParts;

export function addMaintenanceJobs(jobs: Jobs, parts: MaintenanceParts): void {
  jobs.handle(DAILY, ({ signal }) => addRetentions(jobs, parts.db, signal));
  jobs.handle(RETAIN, ({ input, signal }) => retain(parts, input.repositoryId, signal));
  jobs.schedule(DAILY, { cron: '10 4 * * *', timeZone: 'UTC' }, {});
}

const AT_ONCE = 1000;

/** Those of the store that the server prunes, and that can have something to remove. */
async function addRetentions(jobs: Jobs, db: Db, signal: AbortSignal): Promise<{ repositories: number }> {
  const day = clock.date().toISOString().slice(0, 10);
  let repositories = 0;
  for (let after = NONE; !signal.aborted; ) {
    const page = await withSystem(db, 'find the repositories whose retention is due', async (tx) => {
      const { rows } = await tx.raw<{ rows: { id: string; partner_id: string }[] }>(
        `select r.id, o.partner_id from backup_repositories r join organizations o on o.id = r.org_id
        where r.id > ? and r.provider = 'server' and r.initialized_at is not null
          and (r.prune_due_since is not null or (
            select count(*) from backup_snapshots s where s.repository_id = r.id and s.removed_at is null) > 1)
        order by r.id limit ${AT_ONCE}`,
        [after],
      );
      for (const { id, partner_id: partnerId } of rows) {
        await jobs.enqueue(tx, RETAIN, { repositoryId: id }, { key: `${id} ${day}`, partnerId });
      }
      return rows;
    });
    repositories += page.length;
    if (page.length < AT_ONCE) break;
    after = page.at(-1)?.id ?? after;
  }
  return { repositories };
}

const NONE = '00000000-0000-0000-0000-000000000000';

async function retain(
  parts: MaintenanceParts,
  repositoryId: string,
  signal: AbortSignal,
): Promise<{ removed: number; pruned: boolean }> {
  const removed = await markRemoved(parts.db, repositoryId, await findOutdated(parts.db, repositoryId));
  const outdated = await findDuePrune(parts.db, repositoryId);
  if (outdated === undefined) return { removed, pruned: false };
  try {
    await pruneRepository(parts, { repositoryId, outdated }, signal);
  } catch (error) {
    if (error instanceof EngineError && ['WRONG_KEY', 'REPOSITORY_DAMAGED'].includes(error.code)) {
      throw new PermanentJobFailure(error.message, { cause: error });
    }
    throw error;
  }
  // What was pruned stays pruned where this fails; the next hour makes up for it.
  await reconcileSnapshots(parts, [repositoryId], signal).catch((error: unknown) =>
    parts.log.warn({ err: error, repositoryId }, 'backup_snapshots.not_reconciled'),
  );
  return { removed, pruned: true };
}
