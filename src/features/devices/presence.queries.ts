import { actingStatusSql } from '../organizations/index.ts';
import type { AddressHistory, MisrecordedDevice, PresenceRecord, ReportRecord } from '../../hub/ports.ts';
import { arrayLiteral, type Statement } from '../../platform/db/statement.ts';
import { runPrepared, type Tx } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';

/**
 * Writes batches of presence and reports what changed by them. A batch is passed as arrays: one statement and one plan for
 * any number of devices.
 */

export interface Moved {
  device_id: string;
  org_id: string;
  partner_id: string;
  hostname: string;
  before: string;
  after: string;
}

/** A device that connected, disconnected, or changed its address. */
export type Changed = Moved & { hasMoved: boolean; hasTurned: boolean };

/**
 * A statement that writes presence by `upsert` and returns the devices that connected, disconnected or changed their
 * address by it; for heartbeats mostly none. The earlier values are read in the same statement, without another round trip.
 * @param upsert  in which $1 is the array of device ids
 */
const presenceStatement = (name: string, upsert: string): Statement => ({
  name,
  text: `with earlier as materialized (
      select device_id, last_ip, state, reports_until > now() as reports from device_presence where device_id = any($1::uuid[])
    ), written as (${upsert} returning device_id, last_ip, state, reports_until > now() as reports),
    changed as (
      select w.device_id, e.last_ip as before, w.last_ip as after, coalesce(e.last_ip <> w.last_ip, false) as "hasMoved",
        (e.state, coalesce(e.reports, false)) is distinct from (w.state, coalesce(w.reports, false)) as "hasTurned"
      from written w left join earlier e on e.device_id = w.device_id
    )
    select d.id as device_id, d.org_id, o.partner_id, d.hostname, c.before, c.after, c."hasMoved", c."hasTurned"
    from changed c join devices d on d.id = c.device_id join organizations o on o.id = d.org_id
    where c."hasMoved" or c."hasTurned"`,
});

/** Writes connections. An epoch older than the stored one changes nothing. */
export const WRITE_PRESENCE = presenceStatement(
  'write-presence',
  `insert into device_presence as p (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at, last_ip,
    cpu_percent, ram_percent, disk_percent, metrics_at, uptime_seconds)
  select u.device_id, d.org_id, u.epoch, $2, u.state, u.since, u.reason, u.last_seen_at, u.last_ip,
    u.cpu, u.ram, u.disk, case when u.cpu is not null then u.last_seen_at end, u.uptime
  from unnest($1::uuid[], $3::bigint[], $4::text[], $5::timestamptz[], $6::text[], $7::timestamptz[], $8::text[],
    $9::real[], $10::real[], $11::real[], $12::bigint[])
    as u (device_id, epoch, state, since, reason, last_seen_at, last_ip, cpu, ram, disk, uptime)
  join devices d on d.id = u.device_id
  order by u.device_id
  on conflict (device_id) do update set
    epoch = excluded.epoch, node_id = excluded.node_id, state = excluded.state, since = excluded.since,
    reason = excluded.reason, last_seen_at = greatest(p.last_seen_at, excluded.last_seen_at),
    last_ip = coalesce(excluded.last_ip, p.last_ip), cpu_percent = coalesce(excluded.cpu_percent, p.cpu_percent),
    ram_percent = coalesce(excluded.ram_percent, p.ram_percent),
    disk_percent = coalesce(excluded.disk_percent, p.disk_percent),
    metrics_at = coalesce(excluded.metrics_at, p.metrics_at),
    uptime_seconds = coalesce(excluded.uptime_seconds, p.uptime_seconds),
    reports_until = case when excluded.state = 'connected' then null else p.reports_until end
  where p.epoch <= excluded.epoch`,
);

/** The parameters of `WRITE_PRESENCE`. */
export const presenceValues = (nodeId: string, records: readonly PresenceRecord[]): string[] => [
  column(records, (r) => r.deviceId),
  nodeId,
  column(records, (r) => r.epoch),
  column(records, (r) => r.presence.state),
  column(records, (r) => r.presence.since),
  column(records, (r) => r.presence.reason),
  ...heardValues(records),
];

/** Writes reports over HTTP, which leave the state of the connection as it is. */
export const WRITE_REPORTS = presenceStatement(
  'write-reports',
  `insert into device_presence as p (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at, last_ip,
    cpu_percent, ram_percent, disk_percent, metrics_at, uptime_seconds, reports_until)
  select u.device_id, d.org_id, 0, $2, 'disconnected', d.enrolled_at, 'never_seen', u.last_seen_at, u.last_ip,
    u.cpu, u.ram, u.disk, case when u.cpu is not null then u.last_seen_at end, u.uptime, u.until
  from unnest($1::uuid[], $3::timestamptz[], $4::text[], $5::real[], $6::real[], $7::real[], $8::bigint[],
    $9::timestamptz[])
    as u (device_id, last_seen_at, last_ip, cpu, ram, disk, uptime, until)
  join devices d on d.id = u.device_id
  order by u.device_id
  on conflict (device_id) do update set
    last_seen_at = greatest(p.last_seen_at, excluded.last_seen_at),
    last_ip = coalesce(excluded.last_ip, p.last_ip), cpu_percent = coalesce(excluded.cpu_percent, p.cpu_percent),
    ram_percent = coalesce(excluded.ram_percent, p.ram_percent),
    disk_percent = coalesce(excluded.disk_percent, p.disk_percent),
    metrics_at = coalesce(excluded.metrics_at, p.metrics_at),
    uptime_seconds = coalesce(excluded.uptime_seconds, p.uptime_seconds),
    reports_until = greatest(p.reports_until, excluded.reports_until)`,
);

/** The parameters of `WRITE_REPORTS`. */
export const reportValues = (nodeId: string, records: readonly ReportRecord[]): string[] => [
  column(records, (r) => r.deviceId),
  nodeId,
  ...heardValues(records),
  column(records, (r) => r.until),
];

/** The parameters that both statements share. */
const heardValues = (records: readonly (PresenceRecord | ReportRecord)[]): string[] => [
  column(records, (r) => r.lastSeenAt),
  column(records, (r) => r.lastIp),
  column(records, (r) => percent(r.metrics?.cpuPercent)),
  column(records, (r) => percent(r.metrics?.ramPercent)),
  column(records, (r) => percent(r.metrics?.diskPercent)),
  column(records, (r) => (r.uptimeSeconds === null ? null : Math.round(r.uptimeSeconds))),
];

const column = <T>(records: readonly T[], read: (record: T) => string | number | null) =>
  arrayLiteral(records.map(read));

/** Rounded to hundredths: a number too small for single precision would fail the whole batch. */
const percent = (value: number | undefined) => (value === undefined ? null : Math.round(value * 100) / 100);

/**
 * The address changes of devices that used several addresses since they were last written: from the stored one, through
 * those in between, to the one about to be written. Call it before that write, in its transaction.
 */
export async function skippedAddressChanges(
  tx: Tx,
  records: readonly Pick<PresenceRecord, 'deviceId' | 'lastIp'>[],
  passed: AddressHistory,
): Promise<Moved[]> {
  const stored = await runPrepared<Omit<Moved, 'before' | 'after'> & { last_ip: string | null }>(
    tx,
    LAST_ADDRESSES,
    [records.map(({ deviceId }) => deviceId)],
  );
  const lastIps = new Map(records.map(({ deviceId, lastIp }) => [deviceId, lastIp]));
  return stored.flatMap(({ last_ip: lastIp, ...device }) => {
    const ways = [lastIp, ...(passed.get(device.device_id) ?? []), lastIps.get(device.device_id) ?? null];
    const addresses = ways.filter((address) => address !== null);
    return addresses.slice(1).flatMap((after, index) => {
      const before = addresses[index] ?? after;
      return before === after ? [] : [{ ...device, before, after }];
    });
  });
}

const LAST_ADDRESSES: Statement = {
  name: 'last-addresses',
  text: `select d.id as device_id, d.org_id, o.partner_id, d.hostname, p.last_ip
    from devices d join organizations o on o.id = d.org_id left join device_presence p on p.device_id = d.id
    where d.id = any($1::uuid[])`,
};

/** Audits address changes in the transaction that writes them, which may be those of a whole fleet behind a new proxy. */
export async function noteMoves(
  tx: Tx,
  moves: readonly Moved[],
  { audit, log }: { audit: AuditTrail; log: Logger },
): Promise<void> {
  await audit.recordAll(
    tx,
    moves.map(({ device_id: deviceId, org_id: orgId, partner_id: partnerId, hostname, before, after }) => ({
      action: 'agent.source.ip.changed',
      resourceType: 'device',
      resourceId: deviceId,
      resourceName: hostname,
      details: { before, after },
      actor: { kind: 'agent', deviceId, orgId, partnerId },
      state: { client: { ip: after, userAgent: null }, log },
    })),
  );
}

/** The devices that report without a connection, or of the given ones those that report or are connected. */
export async function selectReporting(
  tx: Tx,
  deviceIds: readonly string[] | undefined,
): Promise<{ device_id: string; reports_until: Date | null }[]> {
  const { rows } =
    deviceIds === undefined
      ? await tx.raw(`select device_id, reports_until from device_presence where reports_until > now()`)
      : await tx.raw(
          `select device_id, case when state <> 'connected' then reports_until end as reports_until
          from device_presence where device_id = any(?::uuid[]) and (reports_until > now() or state = 'connected')`,
          [[...deviceIds]],
        );
  return rows as { device_id: string; reports_until: Date | null }[];
}

/** Marks the connected devices that fulfil the condition as disconnected, because their node is lost. */
export async function disconnectHeldBy(
  tx: Tx,
  condition: string,
  values: readonly unknown[],
): Promise<{ device_id: string; since: Date; epoch: number }[]> {
  const { rows } = await tx.raw(
    `update device_presence set state = 'disconnected', reason = 'node_lost', since = now()
    where state = 'connected' and ${condition} returning device_id, since, epoch::float8 as epoch`,
    values as string[],
  );
  return rows as { device_id: string; since: Date; epoch: number }[];
}

export async function selectGreatestEpoch(tx: Tx): Promise<number> {
  const { rows } = await tx.raw('select coalesce(max(epoch), 0)::float8 as epoch from device_presence');
  return (rows as { epoch: number }[])[0]?.epoch ?? 0;
}

/** Those of the devices, connected under these claims, of which something else is stored. */
export async function selectMisrecorded(
  tx: Tx,
  claims: readonly { deviceId: string; epoch: number }[],
): Promise<MisrecordedDevice[]> {
  const { rows } = await tx.raw<{ rows: MisrecordedDevice[] }>(
    `select p.device_id as "deviceId", case when p.epoch > u.epoch then 'outdated' else 'disconnected' end as difference
    from unnest(?::uuid[], ?::bigint[]) as u (device_id, epoch)
    join device_presence p on p.device_id = u.device_id and (p.epoch > u.epoch or p.state <> 'connected')`,
    [claims.map(({ deviceId }) => deviceId), claims.map(({ epoch }) => epoch)],
  );
  return rows;
}

/** A column: the status of the organization `o`, which is that of its partner if the partner is not active. */
export const selectActingStatus = (tx: Tx) => tx.raw(`${actingStatusSql('o')} as status`);
