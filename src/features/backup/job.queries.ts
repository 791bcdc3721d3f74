import { raw } from 'objection';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { SECRETS_CAPABILITY } from '../../protocol/index.ts';
import type { whereMatching } from '../conditions/index.ts';
import { isManageableSql } from '../organizations/index.ts';
import { BackupJob } from './job.model.ts';
import type { BackupSchedule } from './schedule.ts';
import { COMMAND_OF_KIND } from './source-kinds.ts';

/** Returns the sources of which an earlier snapshot of the repository has files. */
export async function sourcesThatHadFiles(
  tx: Tx,
  { repositoryId, snapshotName }: { repositoryId: string; snapshotName: string },
  sources: readonly string[],
): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { source: string }[] }>(HAD_FILES, {
    repositoryId,
    snapshotName,
    sources: JSON.stringify(sources),
  });
  return rows.map(({ source }) => source);
}

/** Earlier snapshots whose device did not report empty sources count only if they have a single source. */
const HAD_FILES = `
  select e.source from jsonb_array_elements_text(:sources::jsonb) with ordinality as e (source, n)
  where exists (select from backup_snapshots s
    where s.repository_id = :repositoryId and s.removed_at is null and s.engine_id <> :snapshotName
      and s.paths @> jsonb_build_array(e.source)
      and case when s.empty_sources is null then jsonb_array_length(s.paths) = 1 and s.file_count > 0
        else not s.empty_sources @> jsonb_build_array(e.source) end)
  order by e.n`;

/** The jobs that the caller may see, with what answers show beside the columns of the table. */
export const visibleJobs = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  BackupJob.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_jobs.org_id'))
    .select('backup_jobs.*', raw(IS_CONNECTED), raw(SNAPSHOT));

const IS_CONNECTED = `(select p.state = 'connected' from device_presence p
  where p.org_id = backup_jobs.org_id and p.device_id = backup_jobs.device_id) as is_connected`;

const SNAPSHOT = `(select s.id from backup_snapshots s
  where s.org_id = backup_jobs.org_id and s.job_id = backup_jobs.id order by s.id limit 1) as snapshot_id`;

/** Fails the jobs that could not begin in time. */
export async function expireJobs(tx: Tx): Promise<void> {
  await tx.raw(
    `update backup_jobs set status = 'failed', finished_at = now(), updated_at = now(), error_code = 'EXPIRED',
      error_message = 'The device was not connected, or its turn did not come, before the job expired.'
    where finished_at is null and command_id is null and expires_at <= now()`,
  );
}

/** How many backups run at a time into the backup store, and into one bucket. */
const AT_ONCE_INTO = { server: 64, s3: 32 };

/** In one round. What is left is due in the next one. */
const ROUND_MAX = 200;

interface DueJob {
  id: string;
  canBackUp: boolean;
  isInitialized: boolean;
}

/** Configurations of a time zone, as a pair. */
export interface ClosedWindow {
  configId: string;
  timeZone: string;
}

/**
 * The jobs that can begin now, those of people first: their device is connected, their time has come, the window of their
 * schedule is open, and their destination takes one more.
 */
export async function dueJobs(tx: Tx, closed: readonly ClosedWindow[]): Promise<DueJob[]> {
  const { rows } = await tx.raw<{ rows: DueJob[] }>(DUE, {
    closedConfigs: closed.map(({ configId }) => configId),
    closedZones: closed.map(({ timeZone }) => timeZone),
    commands: JSON.stringify(COMMAND_OF_KIND),
    secrets: SECRETS_CAPABILITY,
    intoServer: AT_ONCE_INTO.server,
    intoBucket: AT_ONCE_INTO.s3,
    roundMax: ROUND_MAX,
  });
  return rows;
}

/** The place that limits how many run at once: the store, a bucket, or a device, which has a folder of its own. */
const destination = (job: string) => `case c.provider when 'server' then 'server'
    when 's3' then concat_ws('/', 's3', c.details ->> 'endpoint', c.details ->> 'region', c.details ->> 'bucket')
    else ${job}.device_id::text end`;

const DUE = `
  with closed as (
    select * from unnest(:closedConfigs::uuid[], :closedZones::text[]) as w (config_id, time_zone)
  ),
  due as (
    select j.id, j.type, j.due_at, c.provider, ${destination('j')} as destination,
      d.capabilities @> array[:commands::jsonb ->> (coalesce(j.sources, c.sources) ->> 'kind'), :secrets] as can_back_up,
      r.initialized_at is not null as is_initialized
    from backup_jobs j
    join backup_configs c on c.id = j.config_id
    join devices d on d.id = j.device_id and d.condition not in ('pending', 'decommissioned')
    join device_presence p on p.device_id = d.id and p.state = 'connected'
    join organizations o on o.id = j.org_id and ${isManageableSql('o')}
    left join backup_repositories r on r.device_id = j.device_id and r.config_id = j.config_id
    where j.finished_at is null and j.command_id is null and j.due_at <= now()
      and coalesce(r.pruning_until <= now(), true)
      and (j.type = 'manual' or not exists (
        select from closed w join sites s on s.id = d.site_id
        where w.config_id = c.id and w.time_zone = coalesce(c.schedule ->> 'timezone', s.timezone)))
  ),
  busy as (
    select ${destination('j')} as destination, count(*) as jobs
    from backup_jobs j join backup_configs c on c.id = j.config_id
    where j.finished_at is null and j.command_id is not null group by 1
  ),
  ranked as (
    select due.*, row_number() over (
      partition by due.destination order by due.type = 'manual' desc, due.due_at, due.id) as place
    from due
  )
  select ranked.id, ranked.can_back_up as "canBackUp", ranked.is_initialized as "isInitialized"
  from ranked left join busy on busy.destination = ranked.destination
  where ranked.place <= case ranked.provider when 'server' then :intoServer::int when 's3' then :intoBucket::int
    else 1 end - coalesce(busy.jobs, 0)
  order by ranked.type = 'manual' desc, ranked.due_at, ranked.id limit :roundMax::int`;

interface ScheduledJobs {
  id: string;
  orgId: string;
  all: boolean;
  deviceIds: readonly string[];
  groupIds: readonly string[];
  systems: readonly string[];
  timeZone: string;
  isOwnZone: boolean;
  slot: Date;
  after: number;
  upTo: number;
  spread: number;
  waitDays: number;
}

/** @param matching  the devices that the filter of the configuration matches; `undefined`: it has none */
export async function insertScheduledJobs(
  tx: Tx,
  matching: ReturnType<typeof whereMatching> | undefined,
  wanted: ScheduledJobs,
): Promise<number> {
  const none = tx.raw('select null::uuid as id where false');
  const { rowCount } = await tx.raw<{ rowCount: number }>(ADD, {
    matching: matching ?? none,
    ...wanted,
  } as never);
  return rowCount;
}

/** The second of a device within the spread: the same for each slot, and another one for each configuration. */
const SECOND = `(uuid_hash_extended(d.id, uuid_hash_extended(:id::uuid, 0)) & 2147483647) % :spread::int`;

const ADD = `
  with matching as materialized (:matching)
  insert into backup_jobs (id, org_id, device_id, config_id, type, slot, due_at, expires_at)
  select new_row_id(), d.org_id, d.id, :id::uuid, 'scheduled', :slot::timestamptz,
    :slot::timestamptz + make_interval(secs => ${SECOND}),
    :slot::timestamptz + make_interval(days => :waitDays::int)
  from devices d
  where d.org_id = :orgId::uuid and d.condition not in ('pending', 'decommissioned') and d.os_type = any(:systems::text[])
    and ${SECOND} > :after::int and ${SECOND} <= :upTo::int
    and (:isOwnZone::boolean
      or d.site_id in (select s.id from sites s where s.org_id = :orgId::uuid and s.timezone = :timeZone))
    and (:all::boolean or d.id = any(:deviceIds::uuid[])
      or exists (select from device_group_members m
        where m.org_id = :orgId::uuid and m.group_id = any(:groupIds::uuid[]) and m.device_id = d.id)
      or d.id in (select matching.id from matching))
  on conflict do nothing`;

/** Makes backup jobs by the schedules of configurations. */
export interface DueSchedule {
  configId: string;
  orgId: string;
  timeZone: string;
}

export const findSlotState = (
  tx: Tx,
  { configId, orgId, timeZone }: DueSchedule,
): Promise<SlotState | undefined> =>
  tx('backup_schedule_slots')
    .where({ org_id: orgId, config_id: configId, time_zone: timeZone })
    .first<SlotState | undefined>({
      since: 'since',
      slot: 'slot',
      madeSeconds: 'made_seconds',
      nextAt: 'next_at',
    });

export async function storeSlotState(
  tx: Tx,
  { configId, orgId, timeZone }: DueSchedule,
  { since, slot, madeSeconds, nextAt }: SlotState,
): Promise<void> {
  await tx('backup_schedule_slots')
    .insert({
      config_id: configId,
      org_id: orgId,
      time_zone: timeZone,
      since,
      slot,
      made_seconds: madeSeconds,
      next_at: nextAt,
    })
    .onConflict(['config_id', 'time_zone'])
    .merge();
}

/** The time zones of a configuration: its own, or those of the sites of its organization. */
const ZONES = `cross join lateral (
    select c.schedule ->> 'timezone' as time_zone where c.schedule ->> 'timezone' is not null
    union select t.timezone from sites t where t.org_id = c.org_id and c.schedule ->> 'timezone' is null) z`;

const SCHEDULED = `backup_configs c join organizations o on o.id = c.org_id and ${isManageableSql('o')} ${ZONES}
  left join backup_schedule_slots s on s.config_id = c.id and s.time_zone = z.time_zone
  where c.enabled and c.schedule is not null`;

/** The configurations and time zones that have something to do. */
export async function dueSchedules(tx: Tx, now: Date): Promise<DueSchedule[]> {
  const { rows } = await tx.raw<{ rows: DueSchedule[] }>(DUE_PAIRS, { now });
  return rows;
}

const DUE_PAIRS = `
  select c.id as "configId", c.org_id as "orgId", z.time_zone as "timeZone" from ${SCHEDULED}
    and (s.config_id is null or s.since <> c.scheduled_since or s.slot is not null or s.next_at <= :now)
  order by coalesce(s.next_at, c.scheduled_since), c.id`;

export async function schedulesWithWindow(tx: Tx): Promise<(ClosedWindow & { schedule: BackupSchedule })[]> {
  const { rows } = await tx.raw<{ rows: (ClosedWindow & { schedule: BackupSchedule })[] }>(
    `select c.id as "configId", z.time_zone as "timeZone", c.schedule from ${SCHEDULED}
      and c.schedule ->> 'windowStart' is not null`,
  );
  return rows;
}

/** How far the scheduler is, for one configuration and time zone. */
export interface SlotState {
  /** For which `scheduledSince` of the configuration this was computed. */
  since: Date;
  /** The slot that has come, while the time of some of its devices has not. */
  slot: Date | null;
  /** Up to this many seconds after the slot, jobs have been made; -1: none. */
  madeSeconds: number;
  nextAt: Date;
}

export const WAITING = {
  name: 'backup-waits-for-returned',
  text: `select j.id from backup_jobs j
    join device_presence p on p.device_id = j.device_id and p.state = 'connected'
    where j.device_id = any($1::uuid[]) and j.finished_at is null and j.command_id is null and j.due_at <= now()
    limit 1`,
};
