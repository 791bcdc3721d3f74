import type {
  DeviceStatus,
  DeviceSummary,
  Metrics,
  PlannedMaintenance,
  Presence,
} from '../../protocol/index.ts';
import { containing, nameOrder } from '../../platform/db/statement.ts';
import type { Query, Db } from '../../platform/db/pool.ts';
import { MAINTENANCE_SQL, STATUS_SQL, PRESENCE_JOIN, visibleDevices } from '../conditions/index.ts';
import { BETWEEN_TEXTS } from '../search/index.ts';
import type { AgentState, Device, DeviceSort, DeviceQuery } from './device.schema.ts';
import type { TenantScope } from '../../platform/db/tenant-scope.ts';
import { withSystem, type Tx } from '../../platform/db/transaction.ts';
import type { Context } from '../../platform/context.ts';
import type { Page } from '../../platform/http/pagination.ts';
import { AppError } from '../../platform/errors.ts';
import { actingStatusSql, isManageable } from '../organizations/index.ts';

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
  maintenance: PlannedMaintenance | null;
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
    query.client.raw(`${MAINTENANCE_SQL} as maintenance`),
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
  | 'maintenance'
> & {
  /** Of the claim under which presence was stored; 0 if the device has never connected. */
  epoch: number;
};

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
    query.client.raw('coalesce(p.epoch, 0)::float8 as epoch'),
    query.client.raw(`${STATUS_SQL} as status`),
    query.client.raw(`${MAINTENANCE_SQL} as maintenance`),
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
    maintenance: row.maintenance,
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

export function toSummary(row: Omit<SummaryRow, 'epoch'>): DeviceSummary {
  return {
    id: row.id,
    orgId: row.org_id,
    siteId: row.site_id,
    hostname: row.hostname,
    displayName: row.display_name,
    osType: row.os_type,
    agentVersion: row.agent_version,
    status: row.status,
    maintenance: row.maintenance,
    presence: presenceOf(row),
    lastSeenAt: row.last_seen_at?.toISOString() ?? null,
    metrics: metricsOf(row),
  };
}

interface AgentVersionCount {
  version: string;
  os: string;
  architecture: string;
  devices: number;
  /** How many of them wait for approval. */
  pending: number;
}

/** Which versions of the agent the whole fleet runs, for the operator. */
export function agentVersions(db: Db): Promise<AgentVersionCount[]> {
  return withSystem(db, 'count the versions of agents', async (tx) => {
    const { rows } = await tx.raw(
      `select agent_version as version, os_type as os, architecture, count(*)::int as devices,
        count(*) filter (where condition = 'pending')::int as pending
      from devices where condition <> 'decommissioned' group by 1, 2, 3 order by devices desc`,
    );
    return rows as AgentVersionCount[];
  });
}

/**
 * Notes what the watchdog of a device says about its agent. The version of the watchdog is noted here as well, because an
 * agent that does not run cannot report it.
 * @returns whether it is news
 */
export async function recordAgentState(
  tx: Tx,
  deviceId: string,
  { state, message, watchdogVersion }: Pick<AgentState, 'state' | 'message'> & { watchdogVersion: string },
): Promise<boolean> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `update devices set agent_state = :state, agent_state_message = :message, watchdog_version = :watchdogVersion,
      agent_state_since = case when agent_state is distinct from :state then now() else agent_state_since end,
      updated_at = now()
    where id = :deviceId and (agent_state, agent_state_message, watchdog_version)
      is distinct from (:state, :message, :watchdogVersion)`,
    { deviceId, state, message, watchdogVersion },
  );
  return rowCount > 0;
}

/**
 * Shows by their status whether devices are being upgraded. What a person has decided, such as maintenance, stays.
 * @returns those whose status has changed
 */
export async function setUpdating(
  tx: Tx,
  devices: readonly { id: string; isUpdating: boolean }[],
): Promise<string[]> {
  // Locked in the order of their ids, as every change of many devices does.
  await tx.raw(
    `select from devices where id = any(?::uuid[]) and condition in ('normal', 'updating')
    order by id for no key update`,
    [devices.map(({ id }) => id)],
  );
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `with wanted as (
      select u.id, case when u."isUpdating" then 'updating' else 'normal' end as condition
      from jsonb_to_recordset(?::jsonb) as u (id uuid, "isUpdating" boolean)
    )
    update devices d set condition = w.condition, updated_at = now()
    from wanted w
    where d.id = w.id and d.condition in ('normal', 'updating') and d.condition <> w.condition returning d.id`,
    [JSON.stringify(devices)],
  );
  return rows.map(({ id }) => id);
}

/** The positions in the list, counted from 0, of ids that are not devices of the organization in service. */
export async function positionsOutsideOrganization(
  ctx: Context,
  orgId: string,
  deviceIds: readonly string[],
): Promise<number[]> {
  const { rows } = await ctx.tx.raw<{ rows: { position: number }[] }>(
    `select given.position::int - 1 as position
    from unnest(?::uuid[]) with ordinality as given (id, position)
    left join devices d on d.org_id = ? and d.id = given.id and d.condition <> 'decommissioned'
    where d.id is null order by 1`,
    [[...deviceIds], orgId],
  );
  return rows.map(({ position }) => position);
}

/** Counts, pages and reads in one statement that visits each device once and reads whole records for the page only. */
export async function pageOfDevices(tx: Tx, matching: Query, query: DeviceQuery): Promise<Page<Device>> {
  const { page, limit, sort, order } = query;
  const inOrder = (of: string) => `${of}.sort_key ${order} nulls last, ${of}.id`;
  const found = matching.select('d.id', tx.raw(`${SORT_SQL[sort]} as sort_key`));
  const shown = tx
    .from('found')
    .select()
    .orderByRaw(inOrder('found'))
    .offset((page - 1) * limit)
    .limit(limit);
  const paged = tx
    .withMaterialized('found', found)
    .with('shown', shown)
    .from(tx.raw('(select count(*)::int as total from found) as counted'))
    .joinRaw('left join shown on true')
    .joinRaw('left join devices d on d.id = shown.id')
    .joinRaw(PRESENCE_JOIN)
    .orderByRaw(inOrder('shown'))
    .select('counted.total');
  const rows = (await withGroups(selectDevices(paged))) as (DeviceInGroups & { total: number })[];
  // An empty page has one row, with the count alone.
  const data = rows.filter(({ id }) => id !== null).map(toDevice);
  return { data, pagination: { page, limit, total: rows[0]?.total ?? 0 } };
}

/** Why a device is neither asked nor sent anything. */
export const AWAITS_APPROVAL = 'This device waits for approval.';

/** The facts that decide whether a device can be sent a command. */
export interface CommandTarget {
  id: string;
  orgId: string;
  osType: Device['osType'];
  capabilities: string[];
  /** Whether it has ever connected over a socket. */
  hasConnected: boolean;
  /** Whether it waits for approval, and is sent nothing until then. */
  isPending: boolean;
  isManageable: boolean;
}

/**
 * Reads those of the devices that the caller can see, in one query.
 * @param options.withPending  returns devices that wait for approval as well, instead of throwing `device_pending`
 */
export async function commandTargets(
  ctx: { tx: Tx; caller: TenantScope },
  ids: readonly string[],
  { withPending = false }: { withPending?: boolean } = {},
): Promise<CommandTarget[]> {
  const rows = await visibleDevices(ctx.tx, ctx.caller)
    .join('organizations as o', 'o.id', 'd.org_id')
    .whereRaw('d.id = any(?::uuid[])', [[...ids]])
    .select<(Omit<CommandTarget, 'isManageable'> & { orgStatus: string })[]>(
      'd.id',
      'd.org_id as orgId',
      'd.os_type as osType',
      'd.capabilities',
      ctx.tx.raw('coalesce(p.epoch > 0, false) as "hasConnected"'),
      ctx.tx.raw(`d.condition = 'pending' as "isPending"`),
      ctx.tx.raw(`${actingStatusSql('o')} as "orgStatus"`),
    );
  if (!withPending && rows.some(({ isPending }) => isPending)) throw awaitsApproval();
  return rows.map(({ orgStatus, ...device }) => ({ ...device, isManageable: isManageable(orgStatus) }));
}

export const awaitsApproval = () => new AppError('device_pending', AWAITS_APPROVAL);
