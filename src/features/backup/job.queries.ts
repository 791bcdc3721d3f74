import { raw } from 'objection';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { SECRETS_CAPABILITY } from '../../protocol/index.ts';
import type { whereMatching } from '../conditions/index.ts';
import { isManageableSql } from '../organizations/index.ts';
import { bindingsOfMany, INSERT_MANY } from '../work/index.ts';
import { BACKUP, exclusiveKeySql } from './add-job.ts';
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

export interface JobReadiness {
  isConnected: boolean;
  /** Whether the device is in service, and its organization may be managed. */
  mayBegin: boolean;
  isPruned: boolean;
  canBackUp: boolean;
  isInitialized: boolean;
  /** Of a scheduled job. */
  schedule: BackupSchedule | null;
  timeZone: string;
}

/** Whether a job can begin at this moment. `undefined`: its configuration was deleted, or belongs to another organization. */
export async function readJobReadiness(tx: Tx, jobId: string): Promise<JobReadiness | undefined> {
  const { rows } = await tx.raw<{ rows: JobReadiness[] }>(
    `select coalesce(p.state = 'connected', false) as "isConnected",
      d.condition not in ('pending', 'decommissioned') and ${isManageableSql('o')} as "mayBegin",
      coalesce(r.pruning_until > now(), false) as "isPruned",
      d.capabilities @> array[:commands::jsonb ->> (coalesce(f.sources, c.sources) ->> 'kind'), :secrets] as "canBackUp",
      r.initialized_at is not null as "isInitialized",
      case when f.type = 'scheduled' then c.schedule end as schedule,
      coalesce(c.schedule ->> 'timezone', s.timezone) as "timeZone"
    from backup_job_facts f
    join backup_configs c on c.id = f.config_id and c.org_id = f.org_id
    join devices d on d.id = f.device_id
    join sites s on s.id = d.site_id
    join organizations o on o.id = f.org_id
    left join device_presence p on p.device_id = d.id
    left join backup_repositories r on r.device_id = f.device_id and r.config_id = f.config_id
    where f.id = :jobId`,
    { jobId, commands: JSON.stringify(COMMAND_OF_KIND), secrets: SECRETS_CAPABILITY },
  );
  return rows[0];
}

/** The open jobs of a configuration, and whether one of them has begun. */
export async function openJobsOf(
  tx: Tx,
  configId: string,
): Promise<{ unbegun: string[]; hasBegun: boolean }> {
  const open = await tx('backup_jobs')
    .where({ config_id: configId, finished_at: null })
    .select<{ id: string; command_id: string | null }[]>('id', 'command_id');
  return {
    unbegun: open.filter(({ command_id }) => command_id === null).map(({ id }) => id),
    hasBegun: open.some(({ command_id }) => command_id !== null),
  };
}

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
  /** Null: the device itself. */
  target: string | null;
  targetLimit: number;
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
    ...bindingsOfMany(BACKUP),
  } as never);
  return rowCount;
}

/** The second of a device within the spread: the same for each slot, and another one for each configuration. */
const SECOND = `(uuid_hash_extended(d.id, uuid_hash_extended(:id::uuid, 0)) & 2147483647) % :spread::int`;

const ADD = `
  with matching as materialized (:matching),
  wanted as (
    select new_row_id() as id, d.org_id, d.id as device_id, coalesce(:target::text, d.id::text) as target,
      :targetLimit::int as target_limit, ${exclusiveKeySql(':id::uuid', 'd.id')} as exclusive_key,
      null::uuid as created_by, false as is_urgent, :slot::timestamptz + make_interval(secs => ${SECOND}) as due_at,
      :slot::timestamptz + make_interval(days => :waitDays::int) as deadline_at
    from devices d
    where d.org_id = :orgId::uuid and d.condition not in ('pending', 'decommissioned')
      and d.os_type = any(:systems::text[])
      and ${SECOND} > :after::int and ${SECOND} <= :upTo::int
      and (:isOwnZone::boolean
        or d.site_id in (select s.id from sites s where s.org_id = :orgId::uuid and s.timezone = :timeZone))
      and (:all::boolean or d.id = any(:deviceIds::uuid[])
        or exists (select from device_group_members m
          where m.org_id = :orgId::uuid and m.group_id = any(:groupIds::uuid[]) and m.device_id = d.id)
        or d.id in (select matching.id from matching))
      and not exists (select from backup_job_facts f
        where f.device_id = d.id and f.config_id = :id::uuid and f.slot = :slot::timestamptz)
  ),
  added as (${INSERT_MANY})
  insert into backup_job_facts (id, org_id, device_id, config_id, type, slot, due_at)
  select n.id, n.org_id, n.device_id, :id::uuid, 'scheduled', :slot::timestamptz, n.due_at
  from wanted n join added on added.id = n.id`;

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
