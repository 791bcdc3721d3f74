import { z } from 'zod';
import type { Context } from '../../platform/context.ts';
import type { Db, Query } from '../../platform/db/pool.ts';
import { arrayLiteral, inTenant, type Statement } from '../../platform/db/statement.ts';
import type { TenantScope } from '../../platform/db/tenant-scope.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import {
  type Averages,
  type Conditions,
  visibleDevices,
  whereMatching,
  withPatternTimeout,
} from '../conditions/index.ts';
import type { StoredAverages, StoredRecent } from './averages.ts';
import type { TimelineSource } from '../timeline-source.ts';

/** A row of the history: the figures of one device from a time on. */
export interface StoredBlock {
  deviceId: string;
  beginsAt: Date;
  block: Buffer;
}

type PartitionedTable =
  | 'metric_samples'
  | 'metric_minutes'
  | 'metric_days'
  | 'metric_quarters'
  | 'metric_hours'
  | 'presence_changes';

/** For how long partitions are created ahead: each one of a table makes planning its queries take longer. */
const AHEAD_HOURS = { metric_samples: 3, metric_minutes: 48, presence_changes: 48 } as const;

/** Creates the missing partitions of a table for rows of the last hours and those to come. */
export async function addComingPartitions(
  db: Db,
  table: keyof typeof AHEAD_HOURS,
  backHours: number,
): Promise<void> {
  await withSystem(db, 'create partitions of the metric history', (tx) =>
    tx.raw(
      `select add_partitions(?, now() - make_interval(hours => ?::int), now() + make_interval(hours => ?::int))`,
      [table, backHours, AHEAD_HOURS[table]],
    ),
  );
}

/** Creates the missing partitions of a table for rows between two times. */
export async function addPartitions(
  db: Db,
  table: PartitionedTable,
  { from, to }: { from: Date; to: Date },
): Promise<void> {
  await withSystem(db, 'create partitions of the metric history', (tx) =>
    tx.raw('select add_partitions(?, ?::timestamptz, ?::timestamptz)', [table, from, to]),
  );
}

/** Drops the partitions of a table that end by then. Throws if the table is in use at that moment. */
export async function dropPartitions(db: Db, table: PartitionedTable, until: Date): Promise<number> {
  const { rows } = await withSystem(db, 'drop partitions of the metric history', (tx) =>
    tx.raw<{ rows: { dropped: number }[] }>('select drop_partitions(?, ?::timestamptz) as dropped', [
      table,
      until,
    ]),
  );
  return rows[0]?.dropped ?? 0;
}

/**
 * Adds samples as they came, those of many devices in one statement, and returns the devices of which they are stored.
 * A device that is being moved is passed over instead of waited for: its rows have to get its organization.
 */
export const ADD_SAMPLES: Statement = {
  name: 'add-metric-samples',
  text: `with held as materialized (
      select id, org_id from devices where id = any($1::uuid[]) order by id for key share skip locked
    ), added as (
      insert into metric_samples (device_id, org_id, begins_at, block)
      select s.device_id, h.org_id, s.begins_at, s.block
      from unnest($1::uuid[], $2::timestamptz[], $3::bytea[]) as s (device_id, begins_at, block)
      join held h on h.id = s.device_id
    )
    select id as "deviceId", org_id as "orgId" from held`,
};

/** The parameters of `ADD_SAMPLES`. */
export const blockValues = (blocks: readonly StoredBlock[]): string[] => [
  arrayLiteral(blocks.map(({ deviceId }) => deviceId)),
  arrayLiteral(blocks.map(({ beginsAt }) => beginsAt.toISOString())),
  arrayLiteral(blocks.map(({ block }) => `\\x${block.toString('hex')}`)),
];

/** Notes how devices are connected now, and why. */
export async function notePresence(db: Db, deviceIds: readonly string[]): Promise<void> {
  await withSystem(db, 'note when devices connected and disconnected', (tx) =>
    tx.raw(
      `insert into presence_changes (device_id, org_id, at, state, reason)
      select device_id, org_id, since, state, reason from device_presence
      where device_id = any(?::uuid[]) and since > now() - interval '1 day' and since < now() + interval '1 day'
      on conflict do nothing`,
      [[...deviceIds]],
    ),
  );
}

/** Keeps the devices in their organizations until the transaction ends. */
export async function holdDevices(tx: Tx, deviceIds: readonly string[]): Promise<void> {
  await tx.raw('select id from devices where id = any(?::uuid[]) order by id for key share', [
    [...deviceIds],
  ]);
}

/** Devices with rows in a stretch of time, in order of their ids, behind `after`. */
export async function devicesWith(
  db: Db,
  {
    table,
    column,
    from,
    to,
    after,
    atMost,
  }: {
    table: 'metric_samples' | 'metric_minutes';
    column: 'arrived_at' | 'begins_at';
    from: Date | '-infinity';
    to: Date;
    after: string;
    atMost: number;
  },
): Promise<string[]> {
  const { rows } = await withSystem(db, 'find devices whose metrics are to be packed', (tx) =>
    tx.raw<{ rows: { id: string }[] }>(
      `select distinct device_id as id from ${table} where ${column} >= ?::timestamptz and ${column} < ?::timestamptz
        and device_id > ?::uuid order by device_id limit ?`,
      [from, to, after, atMost],
    ),
  );
  return rows.map(({ id }) => id);
}

const BLOCK = 'device_id as "deviceId", begins_at as "beginsAt", block';

/** What arrived of the devices before a time, the oldest first. */
export async function arrivedSamples(
  tx: Tx,
  deviceIds: readonly string[],
  before: Date,
): Promise<StoredBlock[]> {
  const { rows } = await tx.raw<{ rows: StoredBlock[] }>(
    `select ${BLOCK} from metric_samples where arrived_at < ?::timestamptz and device_id = any(?::uuid[])
    order by device_id, begins_at, arrived_at`,
    [before, [...deviceIds]],
  );
  return rows;
}

/** The rows of these devices and times, locked. */
export async function lockMinutes(
  tx: Tx,
  keys: readonly Pick<StoredBlock, 'deviceId' | 'beginsAt'>[],
): Promise<StoredBlock[]> {
  const { rows } = await tx.raw<{ rows: StoredBlock[] }>(
    `select ${BLOCK} from metric_minutes
    where (device_id, begins_at) in (select * from unnest(?::uuid[], ?::timestamptz[])) order by device_id, begins_at
    for no key update`,
    [keys.map(({ deviceId }) => deviceId), keys.map(({ beginsAt }) => beginsAt)],
  );
  return rows;
}

/** The minutes of the devices in a stretch of time. */
export async function minutesBetween(
  tx: Tx,
  deviceIds: readonly string[],
  { from, to, everyHours = 1 }: { from: Date; to: Date; everyHours?: number },
): Promise<StoredBlock[]> {
  const { rows } = await tx.raw<{ rows: StoredBlock[] }>(
    `select ${BLOCK} from metric_minutes
    where device_id = any(?::uuid[]) and begins_at >= ?::timestamptz and begins_at < ?::timestamptz
      and extract(hour from begins_at at time zone 'utc')::int % ?::int = 0
    order by device_id, begins_at`,
    [[...deviceIds], from, to, everyHours],
  );
  return rows;
}

/** The joined days of the devices from a time on whose hours are not summed up, or no longer. */
export async function daysWithoutHours(
  tx: Tx,
  deviceIds: readonly string[],
  from: Date,
): Promise<StoredBlock[]> {
  const { rows } = await tx.raw<{ rows: StoredBlock[] }>(
    `select ${BLOCK} from metric_days d where device_id = any(?::uuid[]) and begins_at >= ?::timestamptz
      and not exists (select from metric_hours h where h.device_id = d.device_id and h.begins_at = d.begins_at
        and h.begins_at >= ?::timestamptz)
    order by device_id, begins_at`,
    [[...deviceIds], from, from],
  );
  return rows;
}

/** Writes rows, in place of those of the same device and time. The devices are held. */
export async function putBlocks(
  tx: Tx,
  table: 'metric_minutes' | 'metric_days' | 'metric_quarters' | 'metric_hours',
  blocks: readonly StoredBlock[],
): Promise<void> {
  await tx.raw(
    `insert into ${table} (device_id, org_id, begins_at, block)
    select s.device_id, d.org_id, s.begins_at, s.block
    from unnest(?::uuid[], ?::timestamptz[], ?::bytea[]) as s (device_id, begins_at, block)
    join devices d on d.id = s.device_id order by s.device_id, s.begins_at
    on conflict (device_id, begins_at) do update set block = excluded.block, org_id = excluded.org_id`,
    blockValues(blocks),
  );
}

const AveragesRow = z.object({
  deviceId: z.uuid(),
  hoursUntil: z.date().nullable(),
  hours: z.array(z.number().nullable()),
  daysUntil: z.date().nullable(),
  days: z.array(z.number().nullable()),
});

/** The averages of devices, locked. */
export async function lockAverages(
  tx: Tx,
  deviceIds: readonly string[],
): Promise<Map<string, StoredAverages>> {
  const { rows } = await tx.raw<{ rows: unknown[] }>(
    `select device_id as "deviceId", hours_until as "hoursUntil", hours, days_until as "daysUntil", days
    from device_metric_averages where device_id = any(?::uuid[]) order by device_id for no key update`,
    [[...deviceIds]],
  );
  return new Map(
    rows.map((row) => {
      const { deviceId, hoursUntil, hours, daysUntil, days } = AveragesRow.parse(row);
      return [
        deviceId,
        {
          hours: { until: hoursUntil?.getTime(), figures: hours },
          days: { until: daysUntil?.getTime(), figures: days },
        },
      ];
    }),
  );
}

/** The averages of the last hours of those of the devices that the caller sees. */
export async function hoursOfDevices(
  { tx, caller }: Pick<Context, 'tx' | 'caller'>,
  deviceIds: readonly string[],
): Promise<{ deviceId: string; until: Date; hours: StoredRecent['figures'] }[]> {
  return visibleDevices(tx, caller)
    .join('device_metric_averages as a', (join) => join.on('a.device_id', 'd.id').on('a.org_id', 'd.org_id'))
    .whereIn('d.id', [...deviceIds])
    .whereNotNull('a.hours_until')
    .orderBy('d.id')
    .select('d.id as deviceId', 'a.hours_until as until', 'a.hours');
}

/** Writes the averages of devices, which are held. */
export async function putAverages(
  tx: Tx,
  devices: readonly (StoredAverages & { deviceId: string; averages: Averages })[],
): Promise<void> {
  const time = (until: number | undefined) => (until === undefined ? null : new Date(until).toISOString());
  const rows = devices.map(({ deviceId, hours, days, averages }) => ({
    device_id: deviceId,
    hours_until: time(hours.until),
    hours: hours.figures,
    days_until: time(days.until),
    days: days.figures,
    averages,
  }));
  await tx.raw(
    `insert into device_metric_averages (device_id, org_id, hours_until, hours, days_until, days, averages)
    select s.device_id, d.org_id, s.hours_until, s.hours, s.days_until, s.days, s.averages
    from jsonb_to_recordset(?::jsonb) as s (device_id uuid, hours_until timestamptz, hours real[], days_until timestamptz,
      days real[], averages jsonb)
    join devices d on d.id = s.device_id order by s.device_id
    on conflict (device_id) do update set org_id = excluded.org_id, hours_until = excluded.hours_until,
      hours = excluded.hours, days_until = excluded.days_until, days = excluded.days, averages = excluded.averages`,
    [JSON.stringify(rows)],
  );
}

/** The first day (UTC) that is not summed up yet; `undefined` if there is nothing to sum up. */
export async function firstDayToSumUp(db: Db): Promise<Date | undefined> {
  const { rows } = await withSystem(db, 'find the days of metrics that are to be summed up', (tx) =>
    tx.raw<{ rows: { day: Date | null }[] }>(
      `select min(date_trunc('day', begins_at, 'utc')) as day from metric_minutes
      where begins_at >= (select summed_up_until from metric_progress)`,
    ),
  );
  return rows[0]?.day ?? undefined;
}

export async function noteSummedUp(db: Db, until: Date): Promise<void> {
  await withSystem(db, 'note that a day of metrics is summed up', (tx) =>
    tx.raw('update metric_progress set summed_up_until = ?::timestamptz', [until]),
  );
}

/** A row with figures of each minute, of an hour or of a day. */
export interface DetailedBlock extends StoredBlock {
  isDay: boolean;
}

/**
 * The samples of devices in a stretch of time that are not summed up, packed or not: in the order of their times, a day
 * before its hours, and the later samples of a minute last. The first day may begin before the stretch of time.
 */
export async function detailsOf(
  { tx, caller }: Pick<Context, 'tx' | 'caller'>,
  deviceIds: readonly string[],
  { from, to }: { from: Date; to: Date },
): Promise<DetailedBlock[]> {
  const { rows } = await tx.raw<{ rows: DetailedBlock[] }>(
    `select "deviceId", "beginsAt", block, "isDay" from (
      select ${BLOCK}, true as "isDay", '-infinity'::timestamptz as arrived_at from metric_days
      where device_id = any(?::uuid[]) and ${inTenant(caller, 'org_id')}
        and begins_at > ?::timestamptz - interval '1 day' and begins_at < ?::timestamptz
      union all
      select ${BLOCK}, false, '-infinity'::timestamptz from metric_minutes
      where device_id = any(?::uuid[]) and ${inTenant(caller, 'org_id')}
        and begins_at >= ?::timestamptz and begins_at < ?::timestamptz
      union all
      select ${BLOCK}, false, arrived_at from metric_samples
      where device_id = any(?::uuid[]) and ${inTenant(caller, 'org_id')}
        and begins_at >= ?::timestamptz and begins_at < ?::timestamptz and arrived_at >= ?::timestamptz - interval '1 hour'
    ) as found order by "deviceId", "beginsAt", "isDay" desc, arrived_at`,
    // Nothing arrives before it is sampled, but for clocks that differ, so that earlier partitions are passed over.
    [[...deviceIds], from, to, [...deviceIds], from, to, [...deviceIds], from, to, from],
  );
  return rows;
}

/** The days of devices that are summed up, in a stretch of time. */
export async function summedUp(
  { tx, caller }: Pick<Context, 'tx' | 'caller'>,
  table: 'metric_quarters' | 'metric_hours',
  deviceIds: readonly string[],
  { from, to }: { from: Date; to: Date },
): Promise<StoredBlock[]> {
  const { rows } = await tx.raw<{ rows: StoredBlock[] }>(
    `select ${BLOCK} from ${table}
    where device_id = any(?::uuid[]) and ${inTenant(caller, 'org_id')}
      and begins_at > ?::timestamptz - interval '1 day' and begins_at < ?::timestamptz
    order by device_id, begins_at`,
    [[...deviceIds], from, to],
  );
  return rows;
}

/** The fewest days for which any of the organizations keeps figures of each minute; undefined if none has chosen less. */
export async function fewestMinuteDays(
  { tx, caller }: Pick<Context, 'tx' | 'caller'>,
  orgIds: readonly string[],
): Promise<number | undefined> {
  const { rows } = await tx.raw<{ rows: { days: number | null }[] }>(
    `select min(minute_days) as days from metric_retention
    where org_id = any(?::uuid[]) and ${inTenant(caller, 'org_id')}`,
    [[...orgIds]],
  );
  return rows[0]?.days ?? undefined;
}

export interface PresenceChange {
  deviceId: string;
  at: Date;
  reason: string;
  state: 'connected' | 'disconnected';
}

/** The changes of the presence of devices in a stretch of time, each with the last one before it, in order. */
export async function presenceChanges(
  { tx, caller }: Pick<Context, 'tx' | 'caller'>,
  deviceIds: readonly string[],
  { from, to }: { from: Date; to: Date },
): Promise<PresenceChange[]> {
  const { rows } = await tx.raw<{ rows: PresenceChange[] }>(
    `select c.device_id as "deviceId", c.at, c.state, c.reason from unnest(?::uuid[]) as wanted (id)
    cross join lateral (
      select max(p.at) as at from presence_changes p where p.device_id = wanted.id and p.at <= ?::timestamptz
    ) former
    join presence_changes c on c.device_id = wanted.id and c.at < ?::timestamptz
      and c.at >= coalesce(former.at, ?::timestamptz)
    where ${inTenant(caller, 'c.org_id')}
    order by c.device_id, c.at`,
    [[...deviceIds], from, to, from],
  );
  return rows;
}

type Reader = Pick<Context, 'tx' | 'caller'>;

interface WantedDevices {
  orgId: string | undefined;
  /** Those of a filter. */
  conditions: Conditions | undefined;
  atMost: number;
}

function devicesBy({ tx, caller }: Reader, { orgId, conditions, atMost }: WantedDevices): Query {
  const visible = visibleDevices(tx, caller).orderBy('d.id').limit(atMost);
  if (orgId !== undefined) void visible.where('d.org_id', orgId);
  return conditions === undefined ? visible : whereMatching(visible, conditions, { caller });
}

/** The newest samples of a device, with what shows the device. */
export interface NewestSample extends StoredBlock {
  orgId: string;
  hostname: string;
  displayName: string | null;
}

/**
 * The newest samples of the caller's devices that have arrived in the last ten minutes, those of a filter if there are
 * conditions.
 */
export async function newestSamples(ctx: Reader, wanted: WantedDevices): Promise<NewestSample[]> {
  const { tx, caller } = ctx;
  const query = devicesBy(ctx, wanted)
    .joinRaw(`join ${newestBlocks(caller)} on newest.device_id = d.id`)
    .select<NewestSample[]>(
      'd.id as deviceId',
      'd.org_id as orgId',
      'd.hostname',
      'd.display_name as displayName',
      'newest.begins_at as beginsAt',
      'newest.block',
    );
  const { conditions } = wanted;
  return conditions === undefined ? query : withPatternTimeout(tx, conditions, () => query);
}

/** A device with its newest samples, if some have arrived in the last ten minutes. */
export interface DeviceToScrape {
  id: string;
  name: string;
  organization: string;
  siteId: string;
  osType: string;
  agentVersion: string;
  isConnected: boolean;
  block: Buffer | null;
}

/** The caller's devices in service, those of a filter if there are conditions. */
export async function devicesToScrape(ctx: Reader, wanted: WantedDevices): Promise<DeviceToScrape[]> {
  const { tx, caller } = ctx;
  const query = devicesBy(ctx, wanted)
    .joinRaw(
      `join organizations o on o.id = d.org_id left join ${newestBlocks(caller)} on newest.device_id = d.id`,
    )
    .select<DeviceToScrape[]>(
      'd.id',
      tx.raw('coalesce(d.display_name, d.hostname) as name'),
      'o.name as organization',
      'd.site_id as siteId',
      'd.os_type as osType',
      'd.agent_version as agentVersion',
      tx.raw(`coalesce(p.state = 'connected', false) as "isConnected"`),
      'newest.block',
    );
  const { conditions } = wanted;
  return conditions === undefined ? query : withPatternTimeout(tx, conditions, () => query);
}

/** SQL: the newest block of samples of each device, if it has arrived in the last ten minutes. */
const newestBlocks = (caller: TenantScope) =>
  `(select distinct on (device_id) device_id, begins_at, block from metric_samples
    where arrived_at > now() - interval '10 minutes' and ${inTenant(caller, 'org_id')}
    order by device_id, begins_at desc, arrived_at desc) as newest`;

export const presenceTimeline: TimelineSource = {
  kind: 'presence',
  from: 'presence_changes t where t.device_id = :deviceId and t.org_id = :orgId',
  id: '(extract(epoch from t.at) * 1000)::bigint::text',
  at: 't.at',
  fields: { state: 't.state', reason: 't.reason' },
};
