import type { DeviceStore, PresenceRecord, ReportRecord } from '../../hub/ports.ts';
import { arrayLiteral } from '../../platform/db/array-literal.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';
import { withSystem, withTenant } from '../../platform/db/transaction.ts';
import { PRESENCE_JOIN, visibleDevices } from '../conditions/index.ts';
import { assertOrganizationAccess, isManageable } from '../organizations/index.ts';
import { noteMoves, writePresence } from './written-presence.ts';
import { type DeviceRow, selectDevices, toSummary } from './device.report.ts';
import { devicesFound } from './device.service.ts';

/** The hub's view of the database. Batches go in as arrays: one statement, one plan, however many devices. */
export function createDeviceStore({
  db,
  nodeId,
  audit,
  log,
  onHeard,
  onPresence,
}: {
  db: Db;
  nodeId: string;
  audit: AuditTrail;
  log: Logger;
  /** Called with devices that were heard of, once that is in the database. */
  onHeard?: (deviceIds: readonly string[]) => void;
  /** And with those of them that have come or gone. */
  onPresence?: (deviceIds: readonly string[]) => void;
}): DeviceStore {
  /** With whoever came from another address than before, in the audit trail. */
  const write = async (
    why: string,
    upsert: string,
    records: readonly { deviceId: string }[],
    deviceIds: string,
    values: string[],
  ) => {
    const { moved, turned } = await withSystem(db, why, async (tx) => {
      const found = await writePresence(tx, upsert, deviceIds, values);
      await noteMoves(tx, found.moved, { audit, log });
      return found;
    });
    if (moved.length > 0) audit.committed();
    onHeard?.(records.map(({ deviceId }) => deviceId));
    if (turned.length > 0) onPresence?.(turned);
  };

  return {
    async recordPresence(records) {
      const column = (read: (record: PresenceRecord) => string | number | null) =>
        arrayLiteral(records.map(read));
      const deviceIds = column((r) => r.deviceId);
      await write(
        'write presence of many devices',
        `insert into device_presence as p (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at, last_ip,
          cpu_percent, ram_percent, disk_percent, metrics_at, uptime_seconds)
        select u.device_id, d.org_id, u.epoch, ?, u.state, u.since, u.reason, u.last_seen_at, u.last_ip,
          u.cpu, u.ram, u.disk, case when u.cpu is not null then u.last_seen_at end, u.uptime
        from unnest(?::uuid[], ?::bigint[], ?::text[], ?::timestamptz[], ?::text[], ?::timestamptz[], ?::text[],
          ?::real[], ?::real[], ?::real[], ?::bigint[])
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
        records,
        deviceIds,
        [
          nodeId,
          deviceIds,
          column((r) => r.epoch),
          column((r) => r.presence.state),
          column((r) => r.presence.since),
          column((r) => r.presence.reason),
          column((r) => r.lastSeenAt),
          column((r) => r.lastIp),
          column((r) => percent(r.metrics?.cpuPercent)),
          column((r) => percent(r.metrics?.ramPercent)),
          column((r) => percent(r.metrics?.diskPercent)),
          column((r) => (r.uptimeSeconds === null ? null : Math.round(r.uptimeSeconds))),
        ],
      );
    },

    async recordReports(records) {
      const column = (read: (record: ReportRecord) => string | number | null) =>
        arrayLiteral(records.map(read));
      const deviceIds = column((r) => r.deviceId);
      // Whoever reports without a connection says nothing about the connection: that stays as it is.
      await write(
        'write what devices without a connection report',
        `insert into device_presence as p (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at, last_ip,
          cpu_percent, ram_percent, disk_percent, metrics_at, uptime_seconds, reports_until)
        select u.device_id, d.org_id, 0, ?, 'disconnected', d.enrolled_at, 'never_seen', u.last_seen_at, u.last_ip,
          u.cpu, u.ram, u.disk, case when u.cpu is not null then u.last_seen_at end, u.uptime, u.until
        from unnest(?::uuid[], ?::timestamptz[], ?::text[], ?::real[], ?::real[], ?::real[], ?::bigint[], ?::timestamptz[])
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
        records,
        deviceIds,
        [
          nodeId,
          deviceIds,
          column((r) => r.lastSeenAt),
          column((r) => r.lastIp),
          column((r) => percent(r.metrics?.cpuPercent)),
          column((r) => percent(r.metrics?.ramPercent)),
          column((r) => percent(r.metrics?.diskPercent)),
          column((r) => (r.uptimeSeconds === null ? null : Math.round(r.uptimeSeconds))),
          column((r) => r.until),
        ],
      );
    },

    async reporting(deviceIds) {
      const { rows } = await withSystem(db, 'who reports without a connection', (tx) =>
        deviceIds === undefined
          ? tx.raw(`select device_id, reports_until from device_presence where reports_until > now()`)
          : tx.raw(
              `select device_id, case when state <> 'connected' then reports_until end as reports_until
              from device_presence where device_id = any(?::uuid[]) and (reports_until > now() or state = 'connected')`,
              [deviceIds as string[]],
            ),
      );
      return (rows as { device_id: string; reports_until: Date | null }[]).map((row) => ({
        deviceId: row.device_id,
        until: row.reports_until?.getTime() ?? null,
      }));
    },

    async recordFacts(facts) {
      const { rows } = await withSystem(db, 'write what agents say of their machines', (tx) =>
        // Locked in the order of their ids, as by all who change many.
        tx.raw<{ rows: { id: string }[] }>(
          `with u as materialized (
            select * from jsonb_to_recordset(?::jsonb) as u ("deviceId" uuid, "agentVersion" text, capabilities text[],
              "osVersion" text, "osBuild" text, "watchdogVersion" text, "lastUser" text, "pendingReboot" boolean,
              "autoUpdate" boolean)
          ), differing as materialized (
            select d.id from devices d join u on u."deviceId" = d.id
            where (d.agent_version, d.capabilities, d.os_version, d.os_build, d.watchdog_version, d.last_user,
                d.pending_reboot, d.auto_update)
              is distinct from (u."agentVersion", coalesce(u.capabilities, d.capabilities),
                coalesce(u."osVersion", d.os_version), coalesce(u."osBuild", d.os_build),
                coalesce(u."watchdogVersion", d.watchdog_version), coalesce(u."lastUser", d.last_user),
                coalesce(u."pendingReboot", d.pending_reboot), coalesce(u."autoUpdate", d.auto_update))
            order by d.id for no key update of d
          )
          update devices d set
            agent_version = u."agentVersion", capabilities = coalesce(u.capabilities, d.capabilities),
            os_version = coalesce(u."osVersion", d.os_version), os_build = coalesce(u."osBuild", d.os_build),
            watchdog_version = coalesce(u."watchdogVersion", d.watchdog_version),
            last_user = coalesce(u."lastUser", d.last_user), pending_reboot = coalesce(u."pendingReboot", d.pending_reboot),
            auto_update = coalesce(u."autoUpdate", d.auto_update), updated_at = now()
          from differing join u on u."deviceId" = differing.id where d.id = differing.id returning d.id`,
          [JSON.stringify(facts)],
        ),
      );
      return rows.map(({ id }) => id);
    },

    async markLost(nodes) {
      const [condition, values] = heldBy(nodes);
      const lost = await withSystem(db, 'what a lost node held is not connected', async (tx) => {
        const { rows } = await tx.raw(
          `update device_presence set state = 'disconnected', reason = 'node_lost', since = now()
          where state = 'connected' and ${condition} returning device_id, since`,
          values as string[],
        );
        return (rows as { device_id: string; since: Date }[]).map(({ device_id: deviceId, since }) => ({
          deviceId,
          presence: {
            state: 'disconnected' as const,
            since: since.toISOString(),
            reason: 'node_lost' as const,
          },
        }));
      });
      if (lost.length > 0) onPresence?.(lost.map(({ deviceId }) => deviceId));
      return lost;
    },

    async askable(caller, deviceIds) {
      const rows = await withTenant(
        db,
        caller,
        (tx) =>
          visibleDevices(tx, caller)
            .join('organizations as o', 'o.id', 'd.org_id')
            .whereRaw('d.id = any(?::uuid[])', [[...deviceIds]])
            .select<{ id: string; status: string }[]>('d.id', 'o.status'),
        { readOnly: true },
      );
      return new Map(
        rows.map(({ id, status }) => [
          id,
          { refusal: isManageable(status) ? undefined : `The organization of this device is ${status}.` },
        ]),
      );
    },

    async found(caller, filterId, atMost) {
      return withTenant(db, caller, (tx) =>
        devicesFound({ tx, caller }, filterId, { atMost, path: 'filterId' }),
      );
    },

    async summaries(caller, filter) {
      return withTenant(db, caller, async (tx) => {
        if (filter.orgId !== undefined) await assertOrganizationAccess({ tx, caller }, filter.orgId);
        const query = visibleDevices(tx, caller);
        if (filter.orgId !== undefined) void query.where('d.org_id', filter.orgId);
        if (filter.siteId !== undefined) void query.where('d.site_id', filter.siteId);
        return (await selectDevices(query).orderByRaw('lower(d.hostname), d.id')).map(toSummary);
      });
    },

    async summariesOf(deviceIds) {
      return withSystem(db, 'read devices that have changed, for whoever watches', async (tx) => {
        const query = tx('devices as d')
          .join('organizations as o', 'o.id', 'd.org_id')
          .joinRaw(PRESENCE_JOIN)
          .whereRaw('d.id = any(?::uuid[])', [[...deviceIds]])
          .where('d.condition', '<>', 'decommissioned')
          .whereNull('o.deleted_at')
          .select('o.partner_id');
        const rows = (await selectDevices(query)) as (DeviceRow & { partner_id: string })[];
        return rows.map((row) => ({ device: toSummary(row), partnerId: row.partner_id }));
      });
    },
  };
}

function heldBy(nodes: Parameters<DeviceStore['markLost']>[0]): [sql: string, values: unknown[]] {
  if ('of' in nodes) return ['node_id = ?', [nodes.of]];
  if (nodes.allBut.length === 0) return ['true', []];
  // One that has only just come may not be known to whoever asks.
  return [`not node_id = any(?::text[]) and since < now() - interval '10 seconds'`, [[...nodes.allBut]]];
}

/** Hundredths are enough; a number that is too small for single precision would fail the batch of all devices. */
const percent = (value: number | undefined) => (value === undefined ? null : Math.round(value * 100) / 100);
