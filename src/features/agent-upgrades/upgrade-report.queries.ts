import { z } from 'zod';
import { REPORT_ROWS_MAX, reportPart } from '../report-part.ts';
import { UPGRADES_KEPT_DAYS } from './upgrade.model.ts';

const count = z.number().int();

const UpgradeReport = z
  .object({
    completed: count,
    failed: count,
    rolledBack: count,
    open: count.describe('Attempts that have not ended.'),
    devices: count.describe('Devices with a completed upgrade.'),
    versions: z
      .array(z.object({ component: z.enum(['agent', 'watchdog']), version: z.string(), completed: count }))
      .describe('Those that were installed most often.'),
    versionCount: count.describe('How many versions were installed.'),
  })
  .meta({ id: 'UpgradeReport' });

/** Of the attempts that began in the time, by how they stand now. */
export const upgradeReport = reportPart({
  shape: UpgradeReport,
  keptDays: async () => UPGRADES_KEPT_DAYS,
  async read({ tx }, { orgId, from, to }) {
    const { rows } = await tx.raw<{ rows: [z.input<typeof UpgradeReport>] }>(
      `with attempts as materialized (
        select u.device_id, u.component, u.target_version, u.state from device_upgrades u
        where u.org_id = :orgId and u.started_at >= :from and u.started_at < :to and u.state <> 'offered'
      ), versions as (select component, target_version as version, count(*)::integer as completed from attempts
        where state = 'completed' group by 1, 2)
      select totals.*, (select coalesce(jsonb_agg(to_jsonb(v)), '[]')
          from (select * from versions order by completed desc, component, version limit ${REPORT_ROWS_MAX}) v) as versions,
        (select count(*)::integer from versions) as "versionCount"
      from (select (count(*) filter (where state = 'completed'))::integer as completed,
          (count(*) filter (where state = 'failed'))::integer as failed,
          (count(*) filter (where state = 'rolled_back'))::integer as "rolledBack",
          (count(*) filter (where state not in ('completed', 'failed', 'rolled_back')))::integer as open,
          (count(distinct device_id) filter (where state = 'completed'))::integer as devices
        from attempts) totals`,
      { orgId, from, to },
    );
    return rows[0];
  },
});
