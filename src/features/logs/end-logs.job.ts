import { z } from 'zod';
import { clock, DAY_MS } from '../../clock.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Partition } from '../../platform/db/partitions.ts';
import type { Db } from '../../platform/db/pool.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { RowPruner } from '../../platform/jobs/row-pruner.ts';
import type { Logger } from '../../platform/logger.ts';
import {
  addComingLogPartitions,
  dropLogPartition,
  endedLogPartitions,
  LOG_KINDS,
  type LogKind,
  logRetentionRules,
  longKeepers,
  putAside,
} from './log-partition.queries.ts';

const LogsEnded = z.object({
  /** Partitions. */
  dropped: z.number(),
  /** Rows of organizations that keep them longer. */
  moved: z.number(),
  /** Rows, one by one. */
  removed: z.number(),
  /** How many organizations, tables or partitions were left for the next run because of an error. */
  failed: z.number(),
});
type LogsEnded = z.infer<typeof LogsEnded>;

const END = defineJob({
  name: 'logs.end',
  input: z.object({}),
  result: LogsEnded,
  inCluster: 1,
  // What is removed stays removed, and what is put aside stays so.
  resumes: true,
});

/** A pause after a full batch, so that other work gets at the same rows and the same disk. */
const PAUSE_MS = 50;

/**
 * Rows are put aside a run before their partition is dropped. A backup that began in between still finds them there; of
 * rows that were moved and dropped at once it would have neither.
 */
const ASIDE_BEFORE_MS = DAY_MS;

interface Parts {
  db: Db;
  log: Logger;
}

/** Ends logs that were kept long enough, once a day. */
export function endLogsRegularly({ jobs, ...parts }: Parts & { jobs: Jobs }): void {
  jobs.handle(END, ({ signal }) => endLogs(parts, clock.now(), signal));
  jobs.schedule(END, { cron: '40 3 * * *', timeZone: 'UTC' }, {});
}

/**
 * Puts rows aside that organizations keep longer than a partition is there, drops the partitions whose time is over, and
 * removes the rest of what is too old row by row. A run that is stopped is simply repeated.
 */
export async function endLogs({ db, log }: Parts, now: number, signal?: AbortSignal): Promise<LogsEnded> {
  await addComingLogPartitions(db);
  const ended: LogsEnded = { dropped: 0, moved: 0, removed: 0, failed: 0 };
  const attempt = async (about: object, work: () => Promise<void>) => {
    signal?.throwIfAborted();
    try {
      await work();
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      signal?.throwIfAborted();
      ended.failed += 1;
      log.warn({ err: error, ...about }, 'logs.not_ended');
    }
  };
  for (const kind of LOG_KINDS) {
    const keepers = await longKeepers(db, kind);
    const over = now - kind.days * DAY_MS;
    for (const partition of await endedLogPartitions(db, kind, new Date(over + ASIDE_BEFORE_MS))) {
      let moved = 0;
      for (const orgId of keepers) {
        await attempt({ table: kind.table, orgId }, async () => {
          moved += await putAllAside(db, { kind, partition, orgId }, signal);
        });
      }
      ended.moved += moved;
      if (moved > 0 || partition.ends.getTime() > over) continue;
      await attempt({ table: kind.table, partition }, async () => {
        if (await dropLogPartition(db, kind, partition)) ended.dropped += 1;
      });
    }
  }
  const round = await new RowPruner({ db, log, rules: LOG_KINDS.flatMap(logRetentionRules) }).prune(signal);
  ended.removed = Object.values(round.removed).reduce((sum, count) => sum + count, 0);
  ended.failed += round.failed;
  if (ended.dropped + ended.moved + ended.removed > 0) log.info(ended, 'logs.ended');
  return ended;
}

async function putAllAside(
  db: Db,
  { kind, partition, orgId }: { kind: LogKind; partition: Partition; orgId: string },
  signal: AbortSignal | undefined,
): Promise<number> {
  let moved = 0;
  for (;;) {
    signal?.throwIfAborted();
    const batch = await putAside(db, kind, partition, orgId);
    moved += batch.moved;
    if (!batch.mayHaveMore) return moved;
    await clock.sleep(PAUSE_MS);
  }
}
