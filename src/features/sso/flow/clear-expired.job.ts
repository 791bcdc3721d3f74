import { z } from 'zod';
import type { Db } from '../../../platform/db/pool.ts';
import { PruneRound, RowPruner } from '../../../platform/db/retention/row-pruner.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Logger } from '../../../platform/logger.ts';
import { ssoRetention } from '../retention.ts';

const CLEAR = defineJob({
  name: 'sso.clear-expired',
  input: z.object({}),
  result: PruneRound,
  inCluster: 1,
  resumes: true,
});

/**
 * Removes sign-ins that nobody has finished, and with them the stored SAML responses. Anybody can begin a sign-in and
 * so create rows, therefore this runs more often than the daily removal of old rows.
 */
export function clearExpiredSignIns({ jobs, db, log }: { jobs: Jobs; db: Db; log: Logger }): void {
  const pruner = new RowPruner({ db, rules: ssoRetention, log });
  jobs.handle(CLEAR, ({ signal }) => pruner.prune(signal));
  jobs.schedule(CLEAR, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
}
