import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { followCauses } from '../../alerts/index.ts';
import { MISSED_NO_MORE, missedAlerts, RUN_MISSED } from './follow-runs.ts';
import { type CloudFacts, missingSince } from './readiness.ts';
import { storeReadiness } from './stored-readiness.ts';

const WATCH = defineJob({ name: 'c2c.watch', input: z.object({}), attempts: 1, inCluster: 1 });
const AT_ONCE = 500;
const NONE = '00000000-0000-0000-0000-000000000000';

export function watchRegularly({ jobs, db }: { jobs: Jobs; db: Db }): void {
  jobs.handle(WATCH, ({ signal }) => watchConfigs(db, signal));
  jobs.schedule(WATCH, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
}

/** Computes how well every configuration protects, which ages without any change, and makes the alerts follow. */
export async function watchConfigs(db: Db, signal: AbortSignal): Promise<void> {
  const now = clock.date();
  const late: CloudFacts[] = [];
  for (let after = NONE; !signal.aborted; ) {
    const page = await withSystem(db, 'compute how cloud backups protect', (tx) =>
      storeReadiness(tx, { after, limit: AT_ONCE }, now),
    );
    late.push(...page.filter((facts) => missingSince(facts, now) !== undefined));
    if (page.length < AT_ONCE) break;
    after = page.at(-1)?.configId ?? after;
  }
  // Half a round says nothing about the configurations that it did not reach.
  if (signal.aborted) return;
  await withSystem(db, 'make the alerts about cloud backups follow', (tx) =>
    followCauses(tx, { kind: RUN_MISSED, alerts: missedAlerts(late, now), why: MISSED_NO_MORE }),
  );
}
