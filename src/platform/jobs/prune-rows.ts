import { z } from 'zod';
import { PruneRound, RowPruner, type RowPrunerOptions } from '../db/retention/row-pruner.ts';
import { defineJob } from './definition.ts';
import type { Jobs } from './jobs.ts';

const PRUNE_ROWS = defineJob({
  name: 'database.prune-rows',
  input: z.object({}),
  result: PruneRound,
  attempts: 3,
  backOff: { firstMs: 300_000, longestMs: 3_600_000 },
  inCluster: 1,
  // What is removed stays removed.
  resumes: true,
});

/** Adds the daily round to the background jobs. */
export function pruneRowsDaily(jobs: Jobs, options: RowPrunerOptions): void {
  const pruner = new RowPruner(options);
  jobs.handle(PRUNE_ROWS, async ({ signal, log }) => {
    const round = await pruner.prune(signal);
    signal.throwIfAborted();
    log.info(round, 'database.old_rows_removed');
    return round;
  });
  jobs.schedule(PRUNE_ROWS, { cron: '17 2 * * *', timeZone: 'UTC' }, {});
}
