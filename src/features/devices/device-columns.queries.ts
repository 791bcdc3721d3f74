import type { Context } from '../../platform/context.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { visibleDevices } from '../conditions/index.ts';
import {
  COLUMN_TEXT_MAX,
  type DeviceColumn,
  type DeviceColumnsPage,
  type DeviceColumnsQuery,
} from './device.schema.ts';

/** A few properties of many devices, for lists that show what the live summaries of devices do not have. */

const SQL: Record<DeviceColumn, string> = {
  osVersion: 'd.os_version',
  osBuild: 'd.os_build',
  architecture: 'd.architecture',
  watchdogVersion: 'd.watchdog_version',
  lastUser: 'd.last_user',
  ipAddress: `d.network ->> 'ipAddress'`,
  publicIp: `d.network ->> 'publicIp'`,
  macAddress: `d.network ->> 'macAddress'`,
  lastIp: 'p.last_ip',
  manufacturer: `d.hardware ->> 'manufacturer'`,
  model: `d.hardware ->> 'model'`,
  serialNumber: `d.hardware ->> 'serialNumber'`,
  cpuModel: `d.hardware ->> 'cpuModel'`,
  cpuCores: `d.hardware -> 'cpuCores'`,
  ramTotalMb: `d.hardware -> 'ramTotalMb'`,
  diskTotalGb: `d.hardware -> 'diskTotalGb'`,
  gpuModel: `d.hardware ->> 'gpuModel'`,
  tags: `nullif(array_to_string(d.tags, ', '), '')`,
  groups: `(select string_agg(g.name, ', ' order by lower(g.name)) from device_group_members m
    join device_groups g on g.org_id = m.org_id and g.id = m.group_id
    where m.org_id = d.org_id and m.device_id = d.id)`,
  autoUpdate: 'd.auto_update',
  enrolledAt: `to_char(d.enrolled_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
};

/** Those that are no text, and are as long as they can be. */
const WHOLE: ReadonlySet<DeviceColumn> = new Set(['cpuCores', 'ramTotalMb', 'diskTotalGb', 'autoUpdate']);

/** One character more than is shown says that the text was cut. The database cuts it, so that no page is large. */
const cut = (sql: string) => `left(${sql}, ${COLUMN_TEXT_MAX + 1})`;

/** A number and a truth value stay what they are; texts, days and lists of texts are text. */
const CUSTOM = `case jsonb_typeof(d.custom_fields -> ?)
  when 'array' then to_jsonb(${cut(`(select string_agg(item, ', ') from jsonb_array_elements_text(d.custom_fields -> ?) item)`)})
  when 'string' then to_jsonb(${cut('d.custom_fields ->> ?')})
  else d.custom_fields -> ? end`;

type Value = string | number | boolean;

/** Reads a page in the order of the ids, so that all pages together are one pass, whatever is added meanwhile. */
export async function readColumns(
  ctx: Context,
  { columns, customFields, orgId, siteId, after, limit }: DeviceColumnsQuery,
): Promise<DeviceColumnsPage> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const { tx } = ctx;
  const values = columns.map((name) => `'${name}', ${WHOLE.has(name) ? SQL[name] : cut(SQL[name])}`);
  const customs = customFields.map(() => `?::text, ${CUSTOM}`);
  const devices = visibleDevices(tx, ctx.caller)
    .select<{ id: string; values: Record<string, Value>; customs: Record<string, Value> }[]>(
      'd.id',
      tx.raw(`jsonb_strip_nulls(jsonb_build_object(${values.join(', ')})) as "values"`),
      tx.raw(
        `jsonb_strip_nulls(jsonb_build_object(${customs.join(', ')})) as customs`,
        customFields.flatMap((key) => Array.from({ length: 5 }, () => key)),
      ),
    )
    .orderBy('d.id')
    .limit(limit + 1);
  if (orgId !== undefined) void devices.where('d.org_id', orgId);
  if (siteId !== undefined) void devices.where('d.site_id', siteId);
  if (after !== undefined) void devices.where('d.id', '>', after);
  const rows = await devices;
  const shown = rows.slice(0, limit);
  return {
    data: shown.map(({ id, ...row }) => ({
      deviceId: id,
      values: marked(row.values),
      customFields: marked(row.customs),
    })),
    nextAfter: rows.length > limit ? (shown.at(-1)?.id ?? null) : null,
  };
}

const marked = (values: Record<string, Value>): Record<string, Value> =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      typeof value === 'string' && value.length > COLUMN_TEXT_MAX
        ? `${value.slice(0, COLUMN_TEXT_MAX)}…`
        : value,
    ]),
  );
