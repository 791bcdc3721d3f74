import { z } from 'zod';

const count = (max: number, what: string) => z.number().int().min(1).max(max).optional().describe(what);

/** For how long snapshots are kept. What several fields keep is kept; without any, everything is. */
export const Retention = z
  .strictObject({
    keepLast: count(1000, 'The newest snapshots.'),
    keepDaily: count(3650, 'The newest snapshot of each of so many days on which there was one.'),
    keepWeekly: count(520, 'The same for weeks, which begin on Monday.'),
    keepMonthly: count(120, 'The same for months.'),
    keepYearly: count(25, 'The same for years.'),
    retentionDays: count(3650, 'Every snapshot that is younger.'),
    immutableDays: count(
      3650,
      'For so many days after its arrival nobody can delete a snapshot, and its data stays recoverable.',
    ),
  })
  .meta({ id: 'BackupRetention' });
export type Retention = z.infer<typeof Retention>;
