import type { Db } from '../../../platform/db/pool.ts';
import { withSystem, withTenant, type Tx } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import { organizationScope } from '../../groups/index.ts';
import { isManageableSql } from '../../organizations/index.ts';
import { BackupConfig } from '../configs/config.model.ts';
import { isWindowOpen } from '../core/schedule.ts';
import type { BackupSchedule } from '../core/schedule.schema.ts';
import { slotWork, type SlotState } from '../core/slot-work.ts';
import type { ClosedWindow } from './due-jobs.ts';
import { addScheduledJobs } from './scheduled-jobs.ts';

/** Makes backup jobs by the schedules of configurations. */

interface Pair {
  configId: string;
  orgId: string;
  timeZone: string;
}

/**
 * One round: for each configuration and time zone that has something to do, in a transaction of its own, so that a filter
 * that fails keeps nobody else's backups from being made. It does its slot in a later round.
 * @returns how many jobs were added
 */
export async function runSchedules(
  { db, log }: { db: Db; log: Logger },
  now: Date,
  signal?: AbortSignal,
): Promise<number> {
  const pairs = await withSystem(db, 'find the backup schedules that are due', async (tx) => {
    const { rows } = await tx.raw<{ rows: Pair[] }>(DUE_PAIRS, { now });
    return rows;
  });
  let added = 0;
  for (const pair of pairs) {
    if (signal?.aborted === true) break;
    try {
      added += await withTenant(db, organizationScope(pair.orgId), (tx) => runSchedule(tx, pair, now));
    } catch (error) {
      log.warn({ err: error, backupConfigId: pair.configId, orgId: pair.orgId }, 'backup.schedule_failed');
    }
  }
  return added;
}

async function runSchedule(tx: Tx, { configId, orgId, timeZone }: Pair, now: Date): Promise<number> {
  // Serializes the rounds of several servers. The configuration stays as it is until the jobs are there.
  const config = await BackupConfig.query(tx).findById(configId).forNoKeyUpdate();
  if (config === undefined || config.schedule === null || !config.enabled) return 0;
  const stored = await tx('backup_schedule_slots')
    .where({ org_id: orgId, config_id: configId, time_zone: timeZone })
    .first<SlotState | undefined>({
      since: 'since',
      slot: 'slot',
      madeSeconds: 'made_seconds',
      nextAt: 'next_at',
    });
  const since = config.scheduledSince;
  const { jobs, state } = slotWork(config.schedule, timeZone, { stored, since, now });
  const added = jobs === undefined ? 0 : await addScheduledJobs(tx, config, timeZone, jobs);
  await tx('backup_schedule_slots')
    .insert({
      config_id: configId,
      org_id: orgId,
      time_zone: timeZone,
      since: state.since,
      slot: state.slot,
      made_seconds: state.madeSeconds,
      next_at: state.nextAt,
    })
    .onConflict(['config_id', 'time_zone'])
    .merge();
  return added;
}

/** The time zones of a configuration: its own, or those of the sites of its organization. */
const ZONES = `cross join lateral (
    select c.schedule ->> 'timezone' as time_zone where c.schedule ->> 'timezone' is not null
    union select t.timezone from sites t where t.org_id = c.org_id and c.schedule ->> 'timezone' is null) z`;
const SCHEDULED = `backup_configs c join organizations o on o.id = c.org_id and ${isManageableSql('o')} ${ZONES}
  left join backup_schedule_slots s on s.config_id = c.id and s.time_zone = z.time_zone
  where c.enabled and c.schedule is not null`;

const DUE_PAIRS = `
  select c.id as "configId", c.org_id as "orgId", z.time_zone as "timeZone" from ${SCHEDULED}
    and (s.config_id is null or s.since <> c.scheduled_since or s.slot is not null or s.next_at <= :now)
  order by coalesce(s.next_at, c.scheduled_since), c.id`;

/** The schedules whose window is closed now, by configuration and time zone. */
export async function closedWindows(tx: Tx, now: Date): Promise<ClosedWindow[]> {
  const { rows } = await tx.raw<{ rows: (Omit<Pair, 'orgId'> & { schedule: BackupSchedule })[] }>(
    `select c.id as "configId", z.time_zone as "timeZone", c.schedule from ${SCHEDULED}
      and c.schedule ->> 'windowStart' is not null`,
  );
  return rows.filter(({ schedule, timeZone }) => !isWindowOpen(schedule, timeZone, now));
}
