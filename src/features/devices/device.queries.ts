import type { DeviceStatus, DeviceSummary, Metrics, Presence } from '../../protocol/index.ts';
import { containing } from '../../platform/db/like-pattern.ts';
import { nameOrder } from '../../platform/db/name-order.ts';
import type { Query } from '../../platform/db/pool.ts';
import { STATUS_SQL } from '../conditions/index.ts';
import { BETWEEN_TEXTS } from '../search/index.ts';
import type { AgentState, Device, DeviceSort } from './device.schema.ts';

/** Reads devices as answers show them: the record, its presence and the computed status in one query. */

export interface DeviceRow {
  id: string;
  org_id: string;
  site_id: string;
  partner_id?: string;
  hostname: string;
  display_name: string | null;
  condition: string;
  maintenance_until: Date | null;
  status: DeviceStatus;
  os_type: Device['osType'];
  os_version: string;
  os_build: string | null;
  architecture: Device['architecture'];
  agent_version: string;
  watchdog_version: string | null;
  agent_state: AgentState['state'] | null;
  agent_state_message: string | null;
  agent_state_since: Date | null;
  tags: string[];
  custom_fields: Record<string, unknown>;
  hardware: Device['hardware'];
  network: Device['network'];
  capabilities: string[];
  auto_update: boolean;
  enrolled_at: Date;
  created_at: Date;
  updated_at: Date;
  state: Presence['state'] | null;
  since: Date | null;
  reason: Presence['reason'] | null;
  last_seen_at: Date | null;
  last_ip: string | null;
  cpu_percent: number | null;
  ram_percent: number | null;
  disk_percent: number | null;
  metrics_at: Date | null;
}

/** A record shows the device's groups; a summary does not. */
export type DeviceInGroups = DeviceRow & { group_ids: string[]; conflicts_with: string | null };

export const STATUS_IS = (query: Query, status: DeviceStatus) =>
  query.whereRaw(`${STATUS_SQL} = ?`, [status]);

export const IS_MEMBER = (query: Query, groupId: string) =>
  query.whereRaw(
    `exists (select from device_group_members m
      where m.org_id = d.org_id and m.device_id = d.id and m.group_id = ?)`,
    [groupId],
  );

/** Matches either name, ignoring case. `search_text` holds both; only a search for its separator could span the two. */
export const NAME_HAS = (query: Query, part: string) =>
  query.whereRaw(
    part.includes(BETWEEN_TEXTS)
      ? '(lower(d.hostname) like lower(:pattern) or lower(d.display_name) like lower(:pattern))'
      : 'd.search_text like lower(:pattern)',
    { pattern: containing(part) },
  );

export const SORT_SQL: Record<DeviceSort, string> = {
  hostname: nameOrder('d.hostname'),
  displayName: nameOrder('d.display_name'),
  status: STATUS_SQL,
  lastSeenAt: 'p.last_seen_at',
  enrolledAt: 'd.enrolled_at',
  createdAt: 'd.created_at',
  updatedAt: 'd.updated_at',
  osType: 'd.os_type',
  osVersion: 'lower(d.os_version)',
  architecture: 'd.architecture',
  // By number: 1.10 comes after 1.9.
  agentVersion: `string_to_array(regexp_replace(d.agent_version, '[^0-9]+', '.', 'g'), '.', '')::numeric[]`,
  cpuPercent: 'p.cpu_percent',
  ramPercent: 'p.ram_percent',
  diskPercent: 'p.disk_percent',
};

export function selectDevices(query: Query): Query<DeviceRow> {
  return query.select(
    'd.*',
    'p.state',
    'p.since',
    'p.reason',
    'p.last_seen_at',
    'p.last_ip',
    'p.cpu_percent',
    'p.ram_percent',
    'p.disk_percent',
    'p.metrics_at',
    query.client.raw(`${STATUS_SQL} as status`),
  );
}

/** The columns of a summary, without the JSON ones: whole fleets are read this way. */
export type SummaryRow = Pick<
  DeviceRow,
  | 'id'
  | 'org_id'
  | 'site_id'
  | 'hostname'
  | 'display_name'
  | 'status'
  | 'os_type'
  | 'agent_version'
  | 'enrolled_at'
  | 'state'
  | 'since'
  | 'reason'
  | 'last_seen_at'
  | 'cpu_percent'
  | 'ram_percent'
  | 'disk_percent'
>;

export function selectSummaries(query: Query): Query<SummaryRow> {
  return query.select(
    'd.id',
    'd.org_id',
    'd.site_id',
    'd.hostname',
    'd.display_name',
    'd.os_type',
    'd.agent_version',
    'd.enrolled_at',
    'p.state',
    'p.since',
    'p.reason',
    'p.last_seen_at',
    'p.cpu_percent',
    'p.ram_percent',
    'p.disk_percent',
    query.client.raw(`${STATUS_SQL} as status`),
  );
}

export function withGroups(query: Query<DeviceRow>): Query<DeviceInGroups> {
  return query.select(
    query.client.raw(
      `array(select m.group_id from device_group_members m
        where m.org_id = d.org_id and m.device_id = d.id order by m.group_id) as group_ids`,
    ),
    query.client.raw(
      `case when d.condition = 'pending' then (select o.id from devices o
        where o.org_id = d.org_id and o.machine_id = d.claimed_machine_id) end as conflicts_with`,
    ),
  );
}

export function presenceOf(row: Pick<DeviceRow, 'state' | 'since' | 'reason' | 'enrolled_at'>): Presence {
  if (row.state === null || row.since === null || row.reason === null) {
    return { state: 'disconnected', since: row.enrolled_at.toISOString(), reason: 'never_seen' };
  }
  return { state: row.state, since: row.since.toISOString(), reason: row.reason };
}

function metricsOf(row: Pick<DeviceRow, 'cpu_percent' | 'ram_percent' | 'disk_percent'>): Metrics | null {
  const { cpu_percent: cpu, ram_percent: ram, disk_percent: disk } = row;
  if (cpu === null || ram === null || disk === null) return null;
  return { cpuPercent: rounded(cpu), ramPercent: rounded(ram), diskPercent: rounded(disk) };
}

/** Stored in single precision, which would show as 12.300000190734863. */
const rounded = (value: number) => Math.round(value * 100) / 100;

function agentStateOf(row: DeviceRow): AgentState | null {
  const { agent_state: state, agent_state_message: message, agent_state_since: since } = row;
  return state === null || since === null ? null : { state, message, since: since.toISOString() };
}

export function toDevice(row: DeviceInGroups): Device {
  const metrics = metricsOf(row);
  return {
    id: row.id,
    orgId: row.org_id,
    siteId: row.site_id,
    groupIds: row.group_ids,
    hostname: row.hostname,
    displayName: row.display_name,
    status: row.status,
    conflictsWith: row.conflicts_with,
    maintenanceUntil: row.condition === 'maintenance' ? (row.maintenance_until?.toISOString() ?? null) : null,
    presence: presenceOf(row),
    osType: row.os_type,
    osVersion: row.os_version,
    osBuild: row.os_build,
    architecture: row.architecture,
    agentVersion: row.agent_version,
    watchdogVersion: row.watchdog_version,
    agentState: agentStateOf(row),
    enrolledAt: row.enrolled_at.toISOString(),
    lastSeenAt: row.last_seen_at?.toISOString() ?? null,
    lastIp: row.last_ip,
    tags: row.tags,
    customFields: row.custom_fields,
    hardware: row.hardware,
    network: row.network,
    metrics:
      metrics === null || row.metrics_at === null ? null : { ...metrics, at: row.metrics_at.toISOString() },
    autoUpdate: row.auto_update,
    capabilities: row.capabilities,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}

export function toSummary(row: SummaryRow): DeviceSummary {
  return {
    id: row.id,
    orgId: row.org_id,
    siteId: row.site_id,
    hostname: row.hostname,
    displayName: row.display_name,
    osType: row.os_type,
    agentVersion: row.agent_version,
    status: row.status,
    presence: presenceOf(row),
    lastSeenAt: row.last_seen_at?.toISOString() ?? null,
    metrics: metricsOf(row),
  };
}
