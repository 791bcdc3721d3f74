import { Architecture, DeviceStatus, OsType } from '../../protocol/index.ts';
import {
  type CustomKinds,
  type Field,
  type ManyField,
  reading,
  type Reading,
  type SingleField,
  sql,
  type Sql,
  type CustomKind,
  type ManySql,
  type Value,
} from './field.ts';
import { AVERAGE_WINDOWS, AVERAGED_METRICS, averageKey } from './averages.ts';
import type { Query } from '../../platform/db/pool.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { TenantScope } from '../../platform/db/tenant-scope.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { INSTANT_PATTERN, spanOf } from './instants.ts';

/** The devices that conditions are evaluated on. The SQL of all fields uses the aliases `d` (device) and `p` (presence). */

/** The status of a device: its condition if that is not normal, otherwise whether it is connected or reports over HTTP. */
export const STATUS_SQL = `case when d.condition <> 'normal' then d.condition
  when p.state = 'connected' or p.reports_until > now() then 'online' else 'offline' end`;

/** The maintenance window that the device is in, as JSON; null if it is in none. */
export const MAINTENANCE_SQL = `(select json_build_object('windowId', m.window_id, 'name', m.name,
    'until', to_char(m.ends_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
  from maintenance_members m
  where m.org_id = d.org_id and m.device_id = d.id and m.starts_at <= now() and m.ends_at > now()
  order by m.ends_at desc limit 1)`;

export const PRESENCE_JOIN = 'left join device_presence p on p.device_id = d.id and p.org_id = d.org_id';

/** The devices that a caller can see, without decommissioned ones. */
export const visibleDevices = (tx: Tx, caller: TenantScope): Query =>
  allDevices(tx, caller).where('d.condition', '<>', 'decommissioned');

export const decommissionedDevices = (tx: Tx, caller: TenantScope): Query =>
  allDevices(tx, caller).where('d.condition', 'decommissioned');

const allDevices = (tx: Tx, caller: TenantScope): Query =>
  tx('devices as d').joinRaw(PRESENCE_JOIN).whereRaw(inTenant(caller, 'd.org_id'));

/** All fields that conditions can use. Both backends are generated from this table. */

const NEVER = sql('false');

const FIELDS: ReadonlyMap<string, Field> = new Map(
  [
    text('hostname', 'd.hostname', reading('hostname', itself)),
    text('displayName', 'd.display_name', reading('displayName', itself)),
    text('agentVersion', 'd.agent_version', reading('agentVersion', itself)),
    oneOf('status', DeviceStatus.options, `(${STATUS_SQL})`, reading('status', itself)),
    time('datetime', 'enrolledAt', 'd.enrolled_at', reading('enrolledAt', itself)),
    time('datetime', 'lastSeenAt', 'p.last_seen_at', reading('lastSeenAt', itself)),
    tags(),
    oneOf('osType', OsType.options, 'd.os_type', reading('osType', itself)),
    text('osVersion', 'd.os_version', reading('osVersion', itself)),
    text('osBuild', 'd.os_build', reading('osBuild', itself)),
    oneOf('architecture', Architecture.options, 'd.architecture', reading('architecture', itself)),
    ...(['manufacturer', 'model', 'serialNumber', 'cpuModel', 'gpuModel'] as const).map((name) =>
      text(
        `hardware.${name}`,
        `(d.hardware ->> '${name}')`,
        reading('hardware', (hardware) => hardware[name] ?? null),
      ),
    ),
    ...(['cpuCores', 'ramTotalMb', 'diskTotalGb'] as const).map((name) =>
      number(
        `hardware.${name}`,
        `(d.hardware ->> '${name}')::float8`,
        reading('hardware', (hardware) => hardware[name] ?? null),
      ),
    ),
    ...(['ipAddress', 'publicIp', 'macAddress'] as const).map((name) =>
      text(
        `network.${name}`,
        `(d.network ->> '${name}')`,
        reading('network', (network) => network[name] ?? null),
      ),
    ),
    ...(['cpu', 'ram', 'disk'] as const).map((name) =>
      // Stored in single precision and meant as hundredths.
      number(
        `metrics.${name}Percent`,
        `(floor(p.${name}_percent::float8 * 100 + 0.5) / 100)`,
        reading('metrics', (metrics) => metrics?.[`${name}Percent`] ?? null),
      ),
    ),
    ...AVERAGED_METRICS.flatMap((metric) =>
      AVERAGE_WINDOWS.map((window) => {
        const key = averageKey(metric, window);
        return number(
          `metrics.avg.${key}`,
          `(select (a.averages ->> '${key}')::float8 from device_metric_averages a
            where a.org_id = d.org_id and a.device_id = d.id)`,
          reading('averages', (averages) => averages[key] ?? null),
        );
      }),
    ),
    software('software.installed', 'software'),
    software('software.notInstalled', 'noSoftware'),
    id('orgId', 'd.org_id', reading('orgId', itself)),
    id('siteId', 'd.site_id', reading('siteId', itself)),
    groups(),
    time('days', 'daysSinceLastSeen', 'p.last_seen_at', reading('lastSeenAt', itself)),
    time('days', 'daysSinceEnrolled', 'd.enrolled_at', reading('enrolledAt', itself)),
  ].map((field: Field) => [field.key, field]),
);

/** The field with exactly this name, including letter case. */
export function fieldNamed(name: string, customKinds: CustomKinds): Field | undefined {
  const key = customKey(name);
  return key === undefined ? FIELDS.get(name) : customField(key, customKinds.get(key) ?? 'string');
}

function itself<T>(part: T): T {
  return part;
}

function text(key: string, column: string, from: Reading): SingleField {
  return { key, kind: 'string', sql: sql(column), ...from };
}

function oneOf(key: string, options: readonly string[], column: string, from: Reading): SingleField {
  return { key, kind: 'enum', options, sql: sql(column), ...from };
}

function number(key: string, column: string, from: Reading): SingleField {
  return { key, kind: 'number', sql: sql(column), ...from };
}

function time(kind: 'datetime' | 'days', key: string, column: string, from: Reading): SingleField {
  return { key, kind, sql: sql(column), ...from };
}

function id(key: string, column: string, from: Reading): SingleField {
  return { key, kind: 'uuid', sql: sql(column), ...from };
}

function tags(): ManyField {
  return {
    key: 'tags',
    kind: 'list',
    ...reading('tags', itself),
    sql: {
      some: (test) =>
        within('exists (select from unnest(d.tags) as tag (name) where ', test('tag.name'), ')'),
      overlap: (values) => sql('d.tags && ?::text[]', values),
      include: (values) => sql('d.tags @> ?::text[]', values),
      isNull: NEVER,
    },
  };
}

function groups(): ManyField {
  const member = 'select from device_group_members m where m.org_id = d.org_id and m.device_id = d.id';
  return {
    key: 'groupId',
    kind: 'uuids',
    ...reading('groupIds', (groupIds) => (groupIds.length === 0 ? null : groupIds)),
    sql: {
      some: (test) => within(`exists (${member} and `, test('m.group_id'), ')'),
      overlap: (values) => sql(`exists (${member} and m.group_id = any(?::uuid[]))`, values),
      include: (values) =>
        sql(
          `not exists (select from unnest(?::uuid[]) as wanted (id) where not exists (${member} and m.group_id = wanted.id))`,
          values,
        ),
      isNull: sql(`not exists (${member})`),
    },
  };
}

/** Filters by title first, because there are few titles and many devices have each of them. */
function software(key: string, kind: 'software' | 'noSoftware'): ManyField {
  const devices = (names: Sql) =>
    within(
      'd.id in (select s.device_id from device_software s join software_titles t on t.org_id = s.org_id and t.id = s.title_id where ',
      names,
      ')',
    );
  return {
    key,
    kind,
    ...reading('software', itself),
    sql: {
      some: (test) => devices(test('t.name')),
      overlap: (values) => devices(sql('t.name = any(?::text[])', values)),
      include: (values) =>
        sql(
          `not exists (select from unnest(?::text[]) as wanted (name) where not exists (select from device_software s
          join software_titles t on t.org_id = s.org_id and t.id = s.title_id
          where s.org_id = d.org_id and s.device_id = d.id and t.name = wanted.name))`,
          values,
        ),
      isNull: NEVER,
    },
  };
}

function within(before: string, inner: Sql, after: string): Sql {
  return {
    text: before + inner.text + after,
    values: inner.values,
  };
}

const CUSTOM = 'custom.';

const CUSTOM_KEY_MAX = 255;

/** The key of a custom field, or undefined if the name is not that of a custom field. */
export function customKey(name: string): string | undefined {
  if (!name.startsWith(CUSTOM)) return undefined;
  const key = name.slice(CUSTOM.length);
  return key === '' || key.length > CUSTOM_KEY_MAX ? undefined : key;
}

/**
 * The value of a custom field, or null if the stored JSON is not of the defined type. The CASE keeps Postgres from casting
 * values that would fail.
 */
function customField(name: string, kind: CustomKind): Field {
  const key = `${CUSTOM}${name}`;
  const found = (value: (found: unknown) => Value): Reading =>
    reading('customFields', (fields) => value(Object.hasOwn(fields, name) ? fields[name] : null));
  const guarded = (types: string, expression: string, keys = 2): Sql =>
    sql(
      `case when jsonb_typeof(d.custom_fields -> ?) ${types} then ${expression} end`,
      ...Array.from({ length: keys }, () => name),
    );
  switch (kind) {
    case 'string':
      return {
        key,
        kind,
        sql: guarded(`in ('string', 'number', 'boolean')`, 'd.custom_fields ->> ?'),
        ...found(scalarText),
      };
    case 'number':
      return {
        key,
        kind,
        sql: guarded(`= 'number'`, '(d.custom_fields ->> ?)::float8'),
        ...found((value) => (typeof value === 'number' ? value : null)),
      };
    case 'boolean':
      return {
        key,
        kind,
        sql: guarded(`= 'boolean'`, 'd.custom_fields ->> ?'),
        ...found((value) => (typeof value === 'boolean' ? String(value) : null)),
      };
    case 'date':
      return {
        key,
        kind: 'datetime',
        sql: sql(
          `case when d.custom_fields ->> ? ~ '${INSTANT_PATTERN.replaceAll('?', String.raw`\?`)}' then date_trunc('milliseconds',
            regexp_replace(d.custom_fields ->> ?, '^(.{10})$', '\\1T00:00Z')::timestamptz) end`,
          name,
          name,
        ),
        ...found((value) => (typeof value === 'string' ? (spanOf(value)?.from ?? null) : null)),
      };
    case 'list':
      return {
        key,
        kind,
        sql: customListSql(name),
        ...found((value) => (Array.isArray(value) ? value.filter((one) => typeof one === 'string') : null)),
      };
    default:
      return kind satisfies never;
  }
}

function customListSql(name: string): ManySql {
  const isList = `jsonb_typeof(d.custom_fields -> ?) = 'array'`;
  return {
    some: (test) => {
      const element = test(`(one.value #>> '{}')`);
      return sql(
        `case when ${isList} then exists (select from jsonb_array_elements(d.custom_fields -> ?) as one (value)
          where jsonb_typeof(one.value) = 'string' and ${element.text}) end`,
        name,
        name,
        ...element.values,
      );
    },
    overlap: (values) =>
      sql(
        `case when ${isList} then jsonb_exists_any(d.custom_fields -> ?, ?::text[]) end`,
        name,
        name,
        values,
      ),
    include: (values) =>
      sql(
        `case when ${isList} then jsonb_exists_all(d.custom_fields -> ?, ?::text[]) end`,
        name,
        name,
        values,
      ),
    isNull: sql(`(${isList}) is not true`, name),
  };
}

/** A number or a boolean as the text that Postgres makes of the JSON. */
function scalarText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  return typeof value === 'number' ? plainDecimal(value) : null;
}

/** A number in decimal notation without an exponent. */
function plainDecimal(value: number): string {
  const [, sign = '', whole = '', fraction = '', exponent] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(JSON.stringify(value)) ?? [];
  if (exponent === undefined) return JSON.stringify(value);
  const digits = whole + fraction;
  const point = whole.length + Number(exponent);
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`;
  if (point >= digits.length) return `${sign}${digits.padEnd(point, '0')}`;
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
}
