import { z } from 'zod';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';

const FILL = defineJob({ name: 'c2c.fill-search-texts', input: z.object({}), attempts: 1, inCluster: 1 });
const AT_ONCE = 1000;

/**
 * Makes the items searchable that were there before the search was. A migration would hold all of them locked for
 * minutes. A trigger does it for all others, so later rounds find nothing.
 */
export function fillSearchTexts({ jobs, db }: { jobs: Jobs; db: Db }): void {
  jobs.handle(FILL, ({ signal }) => fillAll(db, signal));
  jobs.schedule(FILL, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
}

export async function fillAll(db: Db, signal: AbortSignal): Promise<void> {
  for (let filled = AT_ONCE; filled === AT_ONCE && !signal.aborted; ) {
    filled = await withSystem(db, 'make cloud items searchable', async (tx) => {
      // Those that a run has locked are filled by its own update, or by the next round.
      const { rowCount } = await tx.raw<{ rowCount: number }>(
        `update c2c_items i set search_text = c2c_search_text(i.name, i.metadata)
        where i.id in (select id from c2c_items where search_text is null order by id limit ${AT_ONCE}
          for no key update skip locked)`,
      );
      return rowCount;
    });
  }
}
