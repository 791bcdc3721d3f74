import type { Tx } from '../../platform/db/transaction.ts';
import { markStalledWork } from '../work/index.ts';
import { LAG, LAGS_TOO_LONG } from './vault.queries.ts';

/** So long without an advance, and work that runs has stalled. */
const STALLED_AFTER_MINUTES = 15;

export const markStalled = (tx: Tx): Promise<void> => markStalledWork(tx, STALLED_AFTER_MINUTES);

const STALLED_WORK = `
  select d.org_id as "orgId", d.id as "deviceId", coalesce(nullif(d.display_name, ''), d.hostname) as "deviceName",
    count(*) filter (where w.kind = 'backup')::int as backups, count(*) filter (where w.kind = 'restore')::int as restores,
    min(w.stalled_since) as since,
    coalesce(bool_or(p.state = 'connected'), false) as "isConnected"
  from work w
  join devices d on d.id = w.device_id and d.condition <> 'decommissioned'
  left join device_presence p on p.device_id = d.id
  where w.kind in ('backup', 'restore') and w.stalled_since is not null and w.finished_at is null
  group by d.id`;

interface StalledDevice {
  orgId: string;
  deviceId: string;
  deviceName: string;
  backups: number;
  restores: number;
  since: Date;
  isConnected: boolean;
}

/** The devices with work that has stalled. */
export async function stalledDevices(tx: Tx): Promise<StalledDevice[]> {
  const { rows } = await tx.raw<{ rows: StalledDevice[] }>(STALLED_WORK);
  return rows;
}

/** SQL: which devices an SLA is about. Groups are followed as they change. */
const TARGETS = `from backup_sla_configs c join backup_readiness b on b.org_id = c.org_id
  and (b.device_id = any(c.target_devices)
    or exists (select from device_group_members m where m.device_id = b.device_id and m.group_id = any(c.target_groups))
    or c.target_devices = '{}' and c.target_groups = '{}')
  where c.is_active`;

/**
 * Makes the events of SLAs follow the figures that were last computed: the newest snapshot is older than the target, the
 * estimate of a restore is longer than the target, or a scheduled backup is missing.
 */
const FOLLOW = `
  with wanted as (
    select c.id, c.org_id, b.device_id, 'rpo_breach' as type,
      jsonb_build_object('targetMinutes', c.rpo_target_minutes, 'minutes', b.rpo_minutes) as details
    ${TARGETS} and (b.rpo_minutes is null or b.rpo_minutes > c.rpo_target_minutes)
    union all
    select c.id, c.org_id, b.device_id, 'rto_breach',
      jsonb_build_object('targetMinutes', c.rto_target_minutes, 'minutes', b.rto_minutes)
    ${TARGETS} and b.rto_minutes > c.rto_target_minutes
    union all
    select c.id, c.org_id, b.device_id, 'missed_backup', '{}'
    ${TARGETS} and b.device_id = any(:missed::uuid[])
  ), ended as (
    update backup_sla_events e set resolved_at = now() where e.resolved_at is null and not exists (
      select from wanted w where w.id = e.sla_config_id and w.device_id = e.device_id and w.type = e.event_type)
  )
  insert into backup_sla_events (id, org_id, sla_config_id, device_id, event_type, details)
  select new_row_id(), org_id, id, device_id, type, details from wanted
  on conflict (sla_config_id, device_id, event_type) where resolved_at is null do nothing`;

interface Breach {
  orgId: string;
  deviceId: string;
  name: string;
  slas: string;
}

/** @param missed  the devices of which a scheduled backup is missing */
export async function followSlaEvents(tx: Tx, missed: readonly string[]): Promise<void> {
  await tx.raw(FOLLOW, { missed: [...missed] });
}

/** The breaches that last, of SLAs that raise alerts: one row for each device. */
export async function openBreaches(tx: Tx): Promise<Breach[]> {
  const { rows } = await tx.raw<{ rows: Breach[] }>(
    `select e.org_id as "orgId", e.device_id as "deviceId", coalesce(nullif(d.display_name, ''), d.hostname) as name,
      string_agg(distinct c.name, ', ') as slas
    from backup_sla_events e join backup_sla_configs c on c.id = e.sla_config_id join devices d on d.id = e.device_id
    where e.resolved_at is null and c.alert_on_breach group by 1, 2, 3`,
  );
  return rows;
}

export interface Behind {
  orgId: string;
  deviceId: string;
  deviceName: string;
  vaults: {
    id: string;
    name: string;
    snapshots: number;
    hours: number;
    isUnsound: boolean;
    code: string | null;
  }[];
}

const IS_UNSOUND = `coalesce((select w.status <> 'passed' from backup_verifications w
  where w.repository_id = v.repository_id and w.finished_at is not null and w.error_code is null
  order by w.id desc limit 1), false)`;

/** The devices with vaults that lag too far behind, or whose last verification found errors. */
export async function vaultsBehind(tx: Tx): Promise<Behind[]> {
  const { rows } = await tx.raw<{ rows: Behind[] }>(
    `select v.org_id as "orgId", v.device_id as "deviceId",
      coalesce(nullif(d.display_name, ''), d.hostname) as "deviceName",
      jsonb_agg(jsonb_build_object('id', v.id, 'name', v.name, 'snapshots', lag.snapshots,
        'hours', floor(extract(epoch from now() - lag.since) / 3600), 'isUnsound', ${IS_UNSOUND},
        'code', (select y.error_code from backup_vault_syncs y where y.vault_id = v.id
          order by y.id desc limit 1)) order by v.name, v.id) as vaults
    from backup_vaults v join devices d on d.id = v.device_id and d.condition <> 'decommissioned' cross join ${LAG}
    where ${LAGS_TOO_LONG} or v.is_active and ${IS_UNSOUND}
    group by 1, 2, 3`,
  );
  return rows;
}

export interface DestinationSpace {
  /** The bytes that backups may still use. Negative if a quota was lowered below what is stored. */
  freeBytes: number;
  totalBytes: number;
  /** The bytes added per day, on average of up to `GROWTH_DAYS`; `null`: not known yet. */
  bytesPerDay: number | null;
}

export const GROWTH_DAYS = 14;

/** In fewer days, the first backups of devices look like a growth that goes on. */
export const GROWTH_DAYS_MIN = 3;

/** The bytes that an organization uses in the store, and their change. */
export interface StoreUsage {
  orgId: string;
  partnerId: string;
  bytes: number;
  /** `null` if its history is too short. */
  bytesPerDay: number | null;
}

/** The usage of a day is recorded at its end. */
const DAY_ENDS = "(u.day + time '23:55') at time zone 'UTC'";

export async function readStoreUsage(tx: Tx): Promise<StoreUsage[]> {
  const { rows } = await tx.raw<{ rows: StoreUsage[] }>(
    `select now.*, (now.bytes - earlier.bytes) / earlier.days as "bytesPerDay"
    from (
      select r.org_id as "orgId", o.partner_id as "partnerId", sum(r.stored_bytes)::float8 as bytes
      from backup_repositories r join organizations o on o.id = r.org_id
      where r.provider = 'server' group by 1, 2) now
    left join lateral (
      select u.bytes::float8 as bytes, extract(epoch from now() - ${DAY_ENDS})::float8 / 86400 as days
      from backup_usage_days u
      where u.org_id = now."orgId" and u.provider = 'server'
        and u.day between (now() at time zone 'UTC')::date - ${GROWTH_DAYS} and (now() at time zone 'UTC')::date - ${GROWTH_DAYS_MIN}
      order by u.day limit 1) earlier on true`,
  );
  return rows;
}

/** The repository of a configuration or of a vault, in a bucket or on a disk of a device. */
export interface OwnDestination extends DestinationSpace {
  orgId: string;
  deviceId: string;
  deviceName: string;
  /** The id of the configuration or the vault. */
  placeId: string;
  placeName: string;
}

export async function readDestinationsOfDevices(tx: Tx): Promise<OwnDestination[]> {
  const { rows } = await tx.raw<{ rows: OwnDestination[] }>(
    `select r.org_id as "orgId", r.device_id as "deviceId", coalesce(c.id, v.id) as "placeId",
      coalesce(c.name, v.name) as "placeName",
      coalesce(nullif(d.display_name, ''), d.hostname) as "deviceName",
      r.destination_free_bytes::float8 as "freeBytes", coalesce(r.destination_total_bytes, 0)::float8 as "totalBytes",
      case when age.days >= ${GROWTH_DAYS_MIN} then (
        select coalesce(sum(s.added_bytes), 0)::float8 from backup_snapshots s where s.repository_id = source.id
          and s.received_at > greatest(age.first_at, now() - interval '${GROWTH_DAYS} days'))
        / least(age.days, ${GROWTH_DAYS}) end as "bytesPerDay"
    from backup_repositories r
    left join backup_configs c on c.id = r.config_id
    left join backup_vaults v on v.repository_id = r.id
    -- A vault grows by what is backed up: what a copy of a snapshot adds is not known.
    cross join lateral (select coalesce(v.source_repository_id, r.id) as id) source
    join devices d on d.id = r.device_id and d.condition <> 'decommissioned'
    cross join lateral (
      select min(s.received_at) as first_at, extract(epoch from now() - min(s.received_at))::float8 / 86400 as days
      from backup_snapshots s where s.repository_id = source.id) age
    where r.destination_free_bytes is not null and coalesce(c.id, v.id) is not null
    order by r.device_id, 4, 3`,
  );
  return rows;
}

export async function addUsageOfDay(tx: Tx): Promise<void> {
  await tx.raw(
    `insert into backup_usage_days (org_id, day, provider, bytes, snapshots)
      select r.org_id, (now() at time zone 'UTC')::date, r.provider, sum(r.stored_bytes), coalesce(sum(s.n), 0)
      from backup_repositories r
      left join lateral (select count(*) as n from backup_snapshots s
        where s.repository_id = r.id and s.removed_at is null) s on true
      group by r.org_id, r.provider
      on conflict (org_id, day, provider) do update set bytes = excluded.bytes, snapshots = excluded.snapshots`,
  );
}
