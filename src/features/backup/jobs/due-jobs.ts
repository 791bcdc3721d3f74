import type { Tx } from '../../../platform/db/transaction.ts';
import { isManageableSql } from '../../organizations/index.ts';
import { SECRETS_CAPABILITY } from '../../../protocol/index.ts';
import { COMMAND_OF_KIND } from '../sources/index.ts';

/** Backup jobs whose turn has come. */

/** So many backups run at a time into the backup store, and so many into one bucket. */
export const AT_ONCE_INTO = { server: 64, s3: 32 };
/** In one round. What is left is due in the next one. */
const ROUND_MAX = 200;

export interface DueJob {
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

/** What limits how many run at once: the store, a bucket, or a device, which has a folder of its own. */
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
