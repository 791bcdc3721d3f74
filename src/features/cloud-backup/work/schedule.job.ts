import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSavepoint, withSystem } from '../../../platform/db/transaction.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { eachByItself } from '../../../platform/each-by-itself.ts';
import type { Logger } from '../../../platform/logger.ts';
import { isManageableSql } from '../../organizations/index.ts';
import { CloudConfig } from '../configs/config.model.ts';
import { nextRunOf } from '../configs/config.service.ts';
import { addRun } from '../jobs/job.service.ts';

const BEGIN_DUE = defineJob({
  name: 'c2c.begin-due',
  input: z.object({}),
  result: z.object({}),
  inCluster: 1,
});
const AT_ONCE = 100;
const HOUR_MS = 3_600_000;

/** Begins the runs of schedules. A run that has not ended when the next one is due goes on in its place. */
export function scheduleRuns({ jobs, db, log }: { jobs: Jobs; db: Db; log: Logger }): void {
  jobs.handle(BEGIN_DUE, async () => {
    await withSystem(db, 'begin the cloud backups that are due', async (tx) => {
      const due = await CloudConfig.query(tx)
        .where('next_run_at', '<=', clock.date())
        .whereNull('removing_since')
        .whereRaw(`org_id in (select o.id from organizations o where ${isManageableSql('o')})`)
        .orderBy('next_run_at')
        .limit(AT_ONCE)
        .forUpdate()
        .skipLocked();
      await eachByItself(
        due,
        (config) =>
          withSavepoint(tx, async (part) => {
            await addRun(part, config, jobs, { trigger: 'schedule', createdBy: null });
            await config.$query(part).patch({ nextRunAt: nextRunOf(config) });
          }),
        (error, config) => {
          log.error({ err: error, configId: config.id }, 'c2c.run_not_begun');
          // Otherwise it would stand before all others in every round.
          return config.$query(tx).patch({ nextRunAt: new Date(clock.now() + HOUR_MS) });
        },
      );
    });
    return {};
  });
  jobs.schedule(BEGIN_DUE, { cron: '* * * * *', timeZone: 'UTC' }, {});
}
