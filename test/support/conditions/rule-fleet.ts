import fc from 'fast-check';
import type { CustomKind, MatchableDevice } from '../../../src/features/conditions/index.ts';
import { newId } from '../../../src/platform/ids.ts';
import { asOwner, type TestDatabase } from '../test-postgres.ts';

/** A fleet in a database and in memory, of values that rules are likely to get wrong. */

export const NOW = Date.parse('2026-03-31T12:00:00.000Z');
export const PARTNER = newId();
export const ORGS = [newId(), newId()];
export const SITES = [newId(), newId()];
export const GROUPS = [newId(), newId(), newId()];

export const CUSTOM_KINDS: ReadonlyMap<string, CustomKind> = new Map([
  ['text', 'string'],
  ['count', 'number'],
  ['flag', 'boolean'],
  ['day', 'date'],
  ['words', 'list'],
]);

/** Text in which case, wildcards, escapes and halves of a letter matter. */
export const WORDS = [
  '',
  'a',
  'A',
  'ab',
  'AB-01',
  'ab-01',
  '%',
  '_',
  '\\',
  'a%b',
  'a_b',
  'a\\b',
  '100%',
  "o'hara",
  'É',
  'é',
  'e\u0301',
  'İ',
  'i',
  'ΣΑΣ',
  'σας',
  'σασ',
  'ß',
  'ẞ',
  'SS',
  '𐐀',
  '𐐨',
  '😀',
  'line\nbreak',
  'tab\there',
  'null',
  'true',
  '5',
  'ſ',
  's',
  'K',
  'k',
  '$1',
  '?',
  '{}',
  '[x]',
  '\u{1E900}',
  '\u{1E922}',
  'Ꟛ',
  '中文',
  ' a ',
];
export const word = fc.constantFrom(...WORDS);
export const words = fc.array(word, { maxLength: 4 });

export const NUMBERS = [0, 1, 2, 3.5, 4, 16, -1, 1e-7, 1e21, 12.3, 33.33, 50, 99.99, 100, 1024, 0.1 + 0.2];
const percent = fc.constantFrom(0, 0.01, 1, 12.3, 33.33, 50, 66.67, 99.99, 100);

const DAY = 86_400_000;
/** At and beside the ends of days, of months and of what is so many days or minutes ago. */
export const TIMES = [
  NOW,
  NOW - 1,
  NOW + 1,
  NOW - DAY,
  NOW - DAY - 1,
  NOW - DAY + 1,
  NOW - 1.5 * DAY,
  NOW - 7 * DAY,
  NOW - 60_000,
  NOW - 60_001,
  NOW - 3_600_000,
  Date.parse('2026-03-31T00:00:00.000Z'),
  Date.parse('2026-03-30T23:59:59.999Z'),
  Date.parse('2026-02-28T12:00:00.000Z'),
  Date.parse('2026-02-28T11:59:59.999Z'),
  Date.parse('2024-02-29T00:00:00.000Z'),
  Date.parse('1969-12-31T23:59:59.999Z'),
  Date.parse('2030-01-01T00:00:00.000Z'),
];
const time = fc.constantFrom(...TIMES);

/** As JSON has it, of whatever type the definition did not name. */
const anything = fc.oneof(
  word,
  fc.constantFrom(...NUMBERS),
  fc.boolean(),
  fc.constant(null),
  fc.constantFrom(
    '2026-03-31',
    '2026-03-31T00:00:00Z',
    '2026-03-31T02:00:00.123456+02:00',
    '2026-02-30',
    '2023-02-29',
    '0000-01-01',
    '2024-02-29',
    '2100-02-29',
    '2000-02-29',
    '0004-02-29',
    '2026-03-31T24:00:00Z',
    '2026-03-31 00:00:00',
    '2026-03-31T00:00Z',
    '2026-03-31T00:00',
    '1969-12-31T23:59:59.9999Z',
    '12026-01-01',
    '2026-03-31T00:00:00+14:59',
    '0001-01-01T00:00:00+14:59',
  ),
  fc.array(fc.oneof(word, fc.constantFrom(...NUMBERS), fc.constant(null), words), { maxLength: 3 }),
  fc.dictionary(fc.constantFrom('a', 'ab', '5'), word, { maxKeys: 2 }),
);

export const CUSTOM_KEYS = [
  'text',
  'count',
  'flag',
  'day',
  'words',
  'other',
  '__proto__',
  'constructor',
  "it's",
  'a.b',
  '?',
  '%',
];

const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });

type Drawn = Omit<MatchableDevice, 'id'>;

export const device: fc.Arbitrary<Drawn> = fc.record({
  orgId: fc.constantFrom(...ORGS),
  siteId: fc.constant(''),
  maintenance: fc.constant(null),
  groupIds: fc.subarray(GROUPS),
  hostname: word.filter((text) => text !== ''),
  displayName: fc.option(word),
  agentVersion: fc.constantFrom('1.0.0', '1.10.0', '2.0.0-beta_1'),
  status: fc.constantFrom('online', 'offline', 'maintenance', 'updating', 'pending', 'quarantined'),
  enrolledAt: time,
  lastSeenAt: fc.option(time),
  tags: fc.uniqueArray(word, { maxLength: 4 }),
  osType: fc.constantFrom('windows', 'macos', 'linux'),
  osVersion: word,
  osBuild: fc.option(word),
  architecture: fc.constantFrom('x64', 'x86', 'arm64'),
  averages: fc.record({ 'cpuPercent.1h': optional(percent), 'diskPercent.7d': optional(percent) }),
  hardware: fc.record({
    manufacturer: optional(word),
    model: optional(word),
    serialNumber: optional(word),
    cpuModel: optional(word),
    gpuModel: optional(word),
    cpuCores: optional(fc.constantFrom(1, 2, 4, 16)),
    ramTotalMb: optional(fc.constantFrom(0, 1024, 3.5, 16_384)),
    diskTotalGb: optional(fc.constantFrom(0, 0.1 + 0.2, 1e21, 500)),
  }),
  network: fc.record({
    ipAddress: optional(fc.constantFrom('10.0.0.1', '10.0.0.10', '')),
    publicIp: optional(fc.constantFrom('2001:DB8::1', '2001:db8::1')),
    macAddress: optional(fc.constantFrom('AA:BB:CC:00:11:22', 'aa:bb:cc:00:11:22')),
  }),
  metrics: fc.option(fc.record({ cpuPercent: percent, ramPercent: percent, diskPercent: percent })),
  software: fc.uniqueArray(
    fc.constantFrom('Mozilla Firefox', 'Google Chrome', '7-Zip 100%', 'Ünïcode_Tool', 'firefox helper'),
    { maxLength: 4 },
  ),
  customFields: fc
    .array(fc.tuple(fc.constantFrom(...CUSTOM_KEYS), anything), { maxLength: 8 })
    .map((entries) => Object.fromEntries(entries)),
}) as fc.Arbitrary<Drawn>;

export async function prepareDatabase({ ownerUrl }: TestDatabase): Promise<void> {
  await asOwner(ownerUrl, `insert into partners (id, name, slug, status) values ($1, 'P', 'p', 'active')`, [
    PARTNER,
  ]);
  for (const [index, org] of ORGS.entries()) {
    await asOwner(
      ownerUrl,
      `insert into organizations (id, partner_id, name, slug) values ($1, $2, 'O', $3)`,
      [org, PARTNER, `o${index}`],
    );
    await asOwner(ownerUrl, `insert into sites (id, org_id, name) values ($1, $2, 'S')`, [SITES[index], org]);
  }
  for (const [index, group] of GROUPS.entries()) {
    await asOwner(ownerUrl, `insert into device_groups (id, org_id, name) values ($1, $2, $3)`, [
      group,
      ORGS[index % 2],
      `G${index}`,
    ]);
  }
}

/** In place of the fleet before; answers it as it is in memory. */
export async function storeFleet(
  { ownerUrl }: TestDatabase,
  drawn: readonly Drawn[],
): Promise<MatchableDevice[]> {
  const fleet = drawn.map((one): MatchableDevice => {
    const index = ORGS.indexOf(one.orgId);
    return {
      ...one,
      id: newId(),
      siteId: SITES[index] ?? '',
      groupIds: one.groupIds.filter((group) => GROUPS.indexOf(group) % 2 === index),
      // What has never been seen has no metrics and is not connected.
      lastSeenAt: one.lastSeenAt,
    };
  });
  await asOwner(ownerUrl, 'delete from device_software');
  await asOwner(ownerUrl, 'delete from software_titles');
  await asOwner(ownerUrl, 'delete from devices');
  await asOwner(
    ownerUrl,
    `with u as (select * from jsonb_to_recordset($1::jsonb) as u (id uuid, "orgId" uuid, "siteId" uuid, hostname text, "displayName" text, "agentVersion" text,
      status text, "enrolledAt" float8, "lastSeenAt" float8, tags text[], "osType" text, "osVersion" text, "osBuild" text, architecture text, hardware jsonb, network jsonb,
      metrics jsonb, averages jsonb, "customFields" jsonb, "groupIds" uuid[])),
    stored as (insert into devices (id, org_id, site_id, hostname, display_name, condition, os_type, os_version, os_build, architecture, agent_version, tags,
      custom_fields, hardware, network, enrolled_at)
      select id, "orgId", "siteId", hostname, "displayName", case when status in ('online', 'offline') then 'normal' else status end, "osType", "osVersion", "osBuild",
        architecture, "agentVersion", tags, "customFields", hardware, network, to_timestamp("enrolledAt" / 1000) from u),
    averaged as (insert into device_metric_averages (device_id, org_id, averages) select id, "orgId", averages from u
      where averages <> '{}'),
    seen as (insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at, cpu_percent, ram_percent, disk_percent)
      select id, "orgId", 1, 'n', case when status = 'online' then 'connected' else 'disconnected' end, now(), 'connected', to_timestamp("lastSeenAt" / 1000),
        (metrics ->> 'cpuPercent')::real, (metrics ->> 'ramPercent')::real, (metrics ->> 'diskPercent')::real from u
      where status = 'online' or "lastSeenAt" is not null or metrics is not null or hostname > 'b')
    insert into device_group_members (org_id, group_id, device_id) select u."orgId", g.id, u.id from u cross join unnest(u."groupIds") as g (id)`,
    [JSON.stringify(fleet)],
  );
  await asOwner(
    ownerUrl,
    `with u as (select * from jsonb_to_recordset($1::jsonb) as u (id uuid, "orgId" uuid, software text[])),
    titles as (insert into software_titles (org_id, name) select distinct u."orgId", s.name from u cross join unnest(u.software) as s (name) returning org_id, id, name)
    insert into device_software (org_id, device_id, title_id) select u."orgId", u.id, t.id from u cross join unnest(u.software) as s (name)
      join titles t on t.org_id = u."orgId" and t.name = s.name`,
    [JSON.stringify(fleet)],
  );
  return fleet;
}
