import { Architecture, DeviceStatus, OsType } from '../../protocol/index.ts';
import { customField, customKey } from './custom-field.ts';
import { STATUS_SQL } from './device-source.ts';
import type { CustomKinds, Dependency, Field, ManyField, SingleField } from './field.ts';
import type { MatchableDevice } from './matchable-device.ts';
import { sql, type Sql } from './sql.ts';

/** Everything a rule can ask of a device: one table, of which both backends are made. */

const NEVER = sql('false');

const FIELDS: ReadonlyMap<string, Field> = new Map(
  [
    text('hostname', 'd.hostname', (device) => device.hostname),
    text('displayName', 'd.display_name', (device) => device.displayName),
    text('agentVersion', 'd.agent_version', (device) => device.agentVersion),
    {
      ...oneOf('status', DeviceStatus.options, `(${STATUS_SQL})`, (device) => device.status),
      reads: ['presence', 'facts'] as const,
    },
    time('datetime', 'enrolledAt', 'd.enrolled_at', 'facts', (device) => device.enrolledAt),
    time('datetime', 'lastSeenAt', 'p.last_seen_at', 'lastSeen', (device) => device.lastSeenAt),
    tags(),
    oneOf('osType', OsType.options, 'd.os_type', (device) => device.osType),
    text('osVersion', 'd.os_version', (device) => device.osVersion),
    text('osBuild', 'd.os_build', (device) => device.osBuild),
    oneOf('architecture', Architecture.options, 'd.architecture', (device) => device.architecture),
    ...(['manufacturer', 'model', 'serialNumber', 'cpuModel', 'gpuModel'] as const).map((name) =>
      text(`hardware.${name}`, `(d.hardware ->> '${name}')`, ({ hardware }) => hardware[name] ?? null),
    ),
    ...(['cpuCores', 'ramTotalMb', 'diskTotalGb'] as const).map((name) =>
      number(
        `hardware.${name}`,
        `(d.hardware ->> '${name}')::float8`,
        'facts',
        ({ hardware }) => hardware[name],
      ),
    ),
    ...(['ipAddress', 'publicIp', 'macAddress'] as const).map((name) =>
      text(`network.${name}`, `(d.network ->> '${name}')`, ({ network }) => network[name] ?? null),
    ),
    ...(['cpu', 'ram', 'disk'] as const).map((name) =>
      // Stored in single precision, of which hundredths are meant.
      number(
        `metrics.${name}Percent`,
        `(floor(p.${name}_percent::float8 * 100 + 0.5) / 100)`,
        'metrics',
        ({ metrics }) => metrics?.[`${name}Percent`],
      ),
    ),
    software('software.installed', 'software'),
    software('software.notInstalled', 'noSoftware'),
    id('orgId', 'd.org_id', (device) => device.orgId),
    id('siteId', 'd.site_id', (device) => device.siteId),
    groups(),
    time('days', 'daysSinceLastSeen', 'p.last_seen_at', 'lastSeen', (device) => device.lastSeenAt),
    time('days', 'daysSinceEnrolled', 'd.enrolled_at', 'facts', (device) => device.enrolledAt),
  ].map((field: Field) => [field.key, field]),
);

/** The field of that name, in the very case. */
export function fieldNamed(name: string, customKinds: CustomKinds): Field | undefined {
  const key = customKey(name);
  return key === undefined ? FIELDS.get(name) : customField(key, customKinds.get(key) ?? 'string');
}

function text(key: string, column: string, value: (device: MatchableDevice) => string | null): SingleField {
  return { key, kind: 'string', reads: ['facts'], sql: sql(column), value };
}

function oneOf(
  key: string,
  options: readonly string[],
  column: string,
  value: (device: MatchableDevice) => string,
): SingleField {
  return { key, kind: 'enum', options, reads: ['facts'], sql: sql(column), value };
}

function number(
  key: string,
  column: string,
  reads: Dependency,
  value: (device: MatchableDevice) => number | undefined,
): SingleField {
  return { key, kind: 'number', reads: [reads], sql: sql(column), value: (device) => value(device) ?? null };
}

function time(
  kind: 'datetime' | 'days',
  key: string,
  column: string,
  reads: Dependency,
  value: (device: MatchableDevice) => number | null,
): SingleField {
  return { key, kind, reads: [reads], sql: sql(column), value };
}

function id(key: string, column: string, value: (device: MatchableDevice) => string): SingleField {
  return { key, kind: 'uuid', reads: ['facts'], sql: sql(column), value };
}

function tags(): ManyField {
  return {
    key: 'tags',
    kind: 'list',
    reads: ['facts'],
    value: (device) => device.tags,
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
    reads: ['groups'],
    value: (device) => (device.groupIds.length === 0 ? null : device.groupIds),
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

/** By the name first: there are few titles, and many devices that have them. */
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
    reads: ['software'],
    value: (device) => device.software,
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
