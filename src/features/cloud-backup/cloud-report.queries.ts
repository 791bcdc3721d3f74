import { z } from 'zod';
import { countedByStatus, countOutcomes, OutcomeCounts, reportPart } from '../report-part.ts';
import { CLOUD_JOB } from './job.service.ts';

const count = z.number().int();

const CloudBackupReport = z
  .object({
    configurations: count.describe('Those at the end. What has been removed since is not among them.'),
    backedUp: count.describe(
      'Those of which a run in this time has stored all that it should, or a part of it.',
    ),
    runs: OutcomeCounts.describe('Runs that were begun, by how they stand now.'),
    restores: OutcomeCounts.describe('Restores that were begun, by how they stand now.'),
    itemsNew: count.describe(
      'Mails, events, contacts and files that the runs have stored for the first time.',
    ),
    itemsFailed: count.describe('Those that a run could not store.'),
  })
  .meta({ id: 'CloudBackupReport' });

export const cloudBackupReport = reportPart({
  permission: 'backup:read',
  shape: CloudBackupReport,
  keptDays: async () => CLOUD_JOB.keptDays,
  async read({ tx }, { orgId, from, to }) {
    interface Row {
      configurations: number;
      backedUp: number;
      runs: Record<string, number>;
      restores: Record<string, number>;
      itemsNew: string;
      itemsFailed: string;
    }
    const { rows } = await tx.raw<{ rows: [Row] }>(
      `with jobs as materialized (
        select j.config_id, j.type, j.status, j.items_new, j.items_failed from c2c_jobs j
        where j.org_id = :orgId and j.created_at >= :from and j.created_at < :to)
      select
        (select count(*)::integer from c2c_configs c
          where c.org_id = :orgId and c.created_at < :to and c.removing_since is null) as configurations,
        (select count(distinct config_id)::integer from jobs
          where type = 'backup' and status in ('completed', 'partial')) as "backedUp",
        ${countedByStatus(`select status from jobs where type = 'backup'`)} as runs,
        ${countedByStatus(`select status from jobs where type = 'restore'`)} as restores,
        (select coalesce(sum(items_new), 0) from jobs where type = 'backup') as "itemsNew",
        (select coalesce(sum(items_failed), 0) from jobs where type = 'backup') as "itemsFailed"`,
      { orgId, from, to },
    );
    const [{ runs, restores, itemsNew, itemsFailed, ...counts }] = rows;
    return {
      ...counts,
      runs: countOutcomes(runs),
      restores: countOutcomes(restores),
      itemsNew: Number(itemsNew),
      itemsFailed: Number(itemsFailed),
    };
  },
});
