import { Architecture, DeviceStatus, OsType } from '../../../protocol/index.ts';
import { customField, customKey } from './custom-field.ts';
import { STATUS_SQL } from './device-source.ts';
import {
  type CustomKinds,
  type Field,
  type ManyField,
  reading,
  type Reading,
  type SingleField,
} from './field.ts';
import { sql, type Sql } from './sql-fragment.ts';

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

const within = (before: string, inner: Sql, after: string): Sql => ({
  text: before + inner.text + after,
  values: inner.values,
});
