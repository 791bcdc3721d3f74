import type { Db } from '../db/pool.ts';
import { withSystem } from '../db/transaction.ts';

export interface QueueState {
  waiting: number;
  /** For how long the first of those that are due has waited. */
  lateSeconds: number;
  /** Running by their records, of a process that does not renew its lease. */
  lost: number;
  failedToday: { name: string; count: number }[];
}

/** What an operator asks about the background jobs. */
export function queueState(db: Db): Promise<QueueState> {
  return withSystem(db, 'the state of the background jobs', async (tx) => {
    const { rows } = await tx.raw(
      `select count(*) filter (where state = 'queued')::int as waiting,
        coalesce(extract(epoch from now() - min(run_at) filter (where state = 'queued' and run_at <= now())), 0)::float8
          as late_seconds,
        count(*) filter (where state = 'running' and lease_until < now())::int as lost
      from background_jobs where state in ('queued', 'running')`,
    );
    const { rows: failures } = await tx.raw(
      `select name, count(*)::int as count from background_jobs
      where state = 'failed' and finished_at > now() - interval '1 day' group by name order by count desc, name limit 20`,
    );
    return {
      waiting: Number(rows[0]?.waiting),
      lateSeconds: Number(rows[0]?.late_seconds),
      lost: Number(rows[0]?.lost),
      failedToday: failures as QueueState['failedToday'],
    };
  });
}
