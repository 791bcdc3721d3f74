import { type Counted, trendPart } from '../trend-part.ts';
import { BACKUP } from './add-job.ts';

/** Backups of devices that ended on a day. Partial ones count as completed, because they leave a snapshot. */
export const backupTrend = trendPart({
  permission: 'backup:read',
  figures: { backupsCompleted: 'during', backupsFailed: 'during' },
  async count(tx, day) {
    // The day of the end leads to the rows by the index that removes them.
    const { rows } = await tx.raw<{ rows: Counted<'backupsCompleted' | 'backupsFailed'>[] }>(
      `select o.id as "orgId",
        (count(*) filter (where w.status in ('completed', 'partial')))::integer as "backupsCompleted",
        (count(*) filter (where w.status = 'failed'))::integer as "backupsFailed"
      from organizations o
      join work w on w.org_id = o.id and w.kind = :kind and w.finished_at >= :from and w.finished_at < :to
        and w.remove_on = (:from::timestamptz at time zone 'UTC')::date + :keptDays::integer
      group by o.id`,
      { ...day, kind: BACKUP.kind, keptDays: BACKUP.keptDays },
    );
    return rows;
  },
});
