import {
  groupId,
  siteId,
  DEVICES,
  OF_PARTNER,
  ORGANIZATIONS,
  organizationId,
  PARTNER,
  seed,
} from './seed.ts';
import { setTimeout } from 'node:timers/promises';
import { previewConditions } from '../../src/features/filters/filter.service.ts';
import type { Context } from '../../src/platform/context.ts';
import { inTenant } from '../../src/platform/db/statement.ts';
import type { TenantScope } from '../../src/platform/db/tenant-scope.ts';
import { withTenant } from '../../src/platform/db/transaction.ts';
import { buildPerson, type Person } from '../../test/support/factories.ts';
import { createTestApp, type TestApp } from '../../test/support/test-app.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../../test/support/test-postgres.ts';

/** Five common questions, each as a filter and as an expert in SQL and this schema would write it. */

export interface Question {
  name: string;
  conditions: object;
  /** SQL joins and conditions; `d` is the devices table. */
  joins: string;
  where: string;
}

const PRESENCE = 'left join device_presence p on p.device_id = d.id';
const of = (field: string, operator: string, value?: unknown) => ({
  field,
  operator,
  ...(value === undefined ? {} : { value }),
});
const and = (...conditions: object[]) => ({ operator: 'AND', conditions });
const or = (...conditions: object[]) => ({ operator: 'OR', conditions });

/** @param orgIds  the organizations that the caller can see; one question names the first of them */
export const questions = (orgIds: readonly string[]): readonly Question[] => [
  {
    name: '1 condition: status',
    conditions: and(of('status', 'equals', 'offline')),
    joins: PRESENCE,
    where: `d.condition = 'normal' and p.state is distinct from 'connected' and (p.reports_until > now()) is not true`,
  },
  {
    name: '4 conditions: Windows not seen for a week',
    conditions: and(
      of('osType', 'equals', 'windows'),
      of('lastSeenAt', 'notWithinLast', { amount: 7, unit: 'days' }),
      or(of('tags', 'hasAny', ['till', 'server']), of('tags', 'isEmpty')),
    ),
    joins: PRESENCE,
    where: `d.os_type = 'windows' and (p.last_seen_at is null or p.last_seen_at < now() - interval '7 days') and (d.tags && '{till,server}' or d.tags = '{}')`,
  },
  {
    name: '4 conditions: software and metrics',
    conditions: and(
      of('software.installed', 'contains', 'chrome'),
      or(of('metrics.diskPercent', 'greaterThan', 90), of('metrics.ramPercent', 'greaterThan', 95)),
      of('software.notInstalled', 'contains', 'firefox'),
    ),
    joins: PRESENCE,
    where: `d.id in (select s.device_id from device_software s join software_titles t on t.org_id = s.org_id and t.id = s.title_id where t.name ilike '%chrome%')
      and (p.disk_percent > 90 or p.ram_percent > 95)
      and d.id not in (select s.device_id from device_software s join software_titles t on t.org_id = s.org_id and t.id = s.title_id where t.name ilike '%firefox%')`,
  },
  {
    name: '10 conditions: names, sites, groups, versions',
    conditions: and(
      or(
        of('hostname', 'startsWith', 'till-'),
        of('displayName', 'contains', 'machine'),
        of('groupId', 'equals', groupId(0)),
      ),
      of('siteId', 'in', [siteId(0, 0), siteId(0, 1), siteId(0, 2)]),
      or(
        and(of('agentVersion', 'in', ['1.0.0', '1.1.1', '1.2.2']), of('osBuild', 'isNotNull')),
        and(of('architecture', 'equals', 'arm64'), of('osVersion', 'notContains', '22.04')),
      ),
      of('hardware.ramTotalMb', 'greaterThanOrEquals', 8192),
      of('daysSinceEnrolled', 'lessThan', 900),
    ),
    joins: '',
    where: `(d.hostname ilike 'till-%' or d.display_name ilike '%machine%' or exists (select from device_group_members m where m.org_id = d.org_id and m.device_id = d.id and m.group_id = '${groupId(0)}'))
      and d.site_id in ('${siteId(0, 0)}', '${siteId(0, 1)}', '${siteId(0, 2)}')
      and ((d.agent_version in ('1.0.0', '1.1.1', '1.2.2') and d.os_build is not null) or (d.architecture = 'arm64' and d.os_version not ilike '%22.04%'))
      and (d.hardware ->> 'ramTotalMb')::int >= 8192 and d.enrolled_at > now() - interval '900 days'`,
  },
  {
    name: '20 conditions: all kinds, four levels',
    conditions: or(
      and(
        of('osType', 'in', ['windows', 'macos']),
        or(
          and(
            of('hardware.manufacturer', 'contains', 'dell'),
            of('hardware.cpuCores', 'greaterThan', 4),
            of('hardware.model', 'notEquals', 'Model 3'),
          ),
          and(
            of('hardware.manufacturer', 'equals', 'Apple'),
            of('hardware.diskTotalGb', 'between', { from: 256, to: 1024 }),
            of('hardware.gpuModel', 'isNull'),
          ),
        ),
        of('custom.rack', 'in', ['R0', 'R4', 'R8', 'R12']),
        of('custom.warranty', 'isNotNull'),
        of('network.ipAddress', 'startsWith', '10.'),
        of('hostname', 'matches', '^(DESK|LAP)-[0-9a-f]+$'),
      ),
      and(
        of('tags', 'hasAll', ['till', 'store']),
        or(
          of('metrics.cpuPercent', 'greaterThan', 90),
          of('metrics.ramPercent', 'greaterThan', 90),
          of('daysSinceLastSeen', 'greaterThan', 14),
          of('lastSeenAt', 'isNull'),
        ),
        of('status', 'notIn', ['maintenance', 'quarantined']),
        of('orgId', 'in', orgIds),
        of('osVersion', 'startsWith', '10.'),
        of('enrolledAt', 'after', '2024-01-01'),
      ),
    ),
    joins: PRESENCE,
    where: `(d.os_type in ('windows', 'macos') and ((d.hardware ->> 'manufacturer' ilike '%dell%' and (d.hardware ->> 'cpuCores')::int > 4 and d.hardware ->> 'model' is distinct from 'Model 3')
        or (d.hardware ->> 'manufacturer' = 'Apple' and (d.hardware ->> 'diskTotalGb')::float8 between 256 and 1024 and d.hardware ->> 'gpuModel' is null))
        and d.custom_fields ->> 'rack' in ('R0', 'R4', 'R8', 'R12') and d.custom_fields ->> 'warranty' is not null and d.network ->> 'ipAddress' ilike '10.%'
        and d.hostname ~ '^(DESK|LAP)-[0-9a-f]+$')
      or (d.tags @> '{till,store}' and (p.cpu_percent > 90 or p.ram_percent > 90 or p.last_seen_at < now() - interval '14 days' or p.last_seen_at is null)
        and d.condition not in ('maintenance', 'quarantined') and d.org_id in (${orgIds.map((id) => `'${id}'`).join(', ')})
        and d.os_version ilike '10.%' and d.enrolled_at >= '2024-01-02')`,
  },
];

/** One statement that returns the count and the first ten devices by name. */
export const handwritten = ({ joins, where }: Question, mine: string): string => `
  with found as materialized (
    select d.id, lower(d.hostname) as by_name from devices d ${joins} where ${mine} and d.condition <> 'decommissioned' and (${where})
  )
  select (select count(*)::int from found) as total, coalesce((select json_agg(s) from (
    select d.id, d.hostname, d.display_name as "displayName", d.os_type as "osType",
      case when d.condition <> 'normal' then d.condition when p.state = 'connected' or p.reports_until > now() then 'online' else 'offline' end as status,
      p.last_seen_at as "lastSeenAt"
    from (select * from found order by by_name, id limit 10) f join devices d on d.id = f.id left join device_presence p on p.device_id = d.id
    order by f.by_name, f.id) s), '[]') as devices`;

/**
 * `npm run bench:filters` measures previews of five common filters through the whole of POST /filters/preview (HTTP,
 * sign-in check, validation of the conditions, audit entry, response), and pages of the list of devices. The callers
 * are a partner of 50,000 devices and one of its organizations of 5,000, in a database of a million. Previews
 * alternate with hand-written SQL for the same question in the same kind of transaction. BENCH_OWNER_URL and
 * BENCH_APP_URL name a database that was seeded before.
 */

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 40);

const given = process.env['BENCH_OWNER_URL'];
const database =
  given === undefined
    ? await createTestDatabase()
    : { ownerUrl: given, appUrl: process.env['BENCH_APP_URL'] ?? '', drop: async () => {} };
if (given === undefined) await seed(database.ownerUrl);
const app = await createTestApp({ database });
await untilLostNodeIsNoted();

interface Reader {
  name: string;
  person: Person;
  scope: TenantScope;
  orgIds: readonly string[];
}

try {
  const readers = await prepareReaders(app);
  const previews: Record<string, object> = {};
  for (const reader of readers) {
    for (const question of questions(reader.orgIds)) {
      previews[`${reader.name}, ${question.name}`] = await measurePreview(reader, question);
    }
  }
  console.table(previews);
  const pages: Record<string, object> = {};
  for (const reader of readers) {
    for (const [name, query] of PAGES()) pages[`${reader.name}, ${name}`] = await measurePage(reader, query);
  }
  console.table(pages);
  console.log(
    JSON.stringify({ devices: DEVICES, organizations: ORGANIZATIONS, rounds: ROUNDS, previews, pages }),
  );
} finally {
  await app.close();
  await database.drop();
  await stopTestPostgres();
}

/**
 * Waits until the server has marked the node of the seeded devices as lost, which it does soon after its start. This
 * writes three quarters of a million rows, so nothing is measured before it is done.
 */
async function untilLostNodeIsNoted(): Promise<void> {
  const connected = async () =>
    (await asOwner(database.ownerUrl, `select from device_presence where state = 'connected' limit 1`))
      .length;
  while ((await connected()) > 0) await setTimeout(1000);
  await asOwner(database.ownerUrl, 'vacuum analyze device_presence');
}

async function prepareReaders(on: TestApp): Promise<Reader[]> {
  const orgIds = Array.from({ length: OF_PARTNER }, (_, n) => organizationId(n));
  const [first = ''] = orgIds;
  return [
    {
      name: 'partner',
      person: await buildPerson(on, { scope: 'partner', partnerId: PARTNER }),
      scope: { scope: 'partner', userId: null, partnerId: PARTNER, orgAccess: 'all', orgIds: [] },
      orgIds,
    },
    {
      name: 'organization',
      person: await buildPerson(on, { scope: 'organization', orgId: first }),
      scope: { scope: 'organization', userId: null, partnerId: null, orgAccess: 'listed', orgIds: [first] },
      orgIds: [first],
    },
  ];
}

async function measurePreview({ person, scope }: Reader, question: Question) {
  const { conditions } = question;
  const { pool } = app.server.database;
  const sql = handwritten(question, inTenant(scope, 'd.org_id')).replaceAll('?', String.raw`\?`);
  const request = async () => {
    const { status, body } = await app.call('POST', '/filters/preview', {
      token: person.token,
      body: { conditions },
    });
    if (status !== 200) throw new Error(JSON.stringify(body));
    return body.data.totalCount as number;
  };
  const caller = { ...scope, permissions: new Set(['*:*']) };
  const preview = async () => {
    const { data } = await withTenant(pool, scope, (tx) =>
      previewConditions({ tx, caller } as unknown as Context, { conditions, limit: 10 }),
    );
    return data.totalCount;
  };
  const byHand = async () => {
    const rows = await withTenant(pool, scope, async (tx) => (await tx.raw(sql)).rows as { total: number }[]);
    return rows[0]?.total ?? 0;
  };
  const counts = [await request(), await preview(), await byHand()];
  if (new Set(counts).size > 1) throw new Error(`${question.name}: ${counts.join(', ')}`);
  return { devices: counts[0], ...(await inTurns({ request, preview, byHand })) };
}

/** `queryPreview` validates, compiles and queries like `request`, but without HTTP, sign-in check and audit entry. */
async function inTurns(ways: Record<'request' | 'preview' | 'byHand', () => Promise<unknown>>) {
  const times: Record<string, number[]> = { request: [], preview: [], byHand: [] };
  for (let round = -2; round < ROUNDS; round++) {
    for (const [name, run] of Object.entries(ways)) {
      const begun = performance.now();
      await run();
      if (round >= 0) times[name]?.push(performance.now() - begun);
    }
  }
  const { request = [], preview = [], byHand = [] } = times;
  return {
    'request p50': rounded(at(request, 0.5)),
    'request p95': rounded(at(request, 0.95)),
    'preview p50': rounded(at(preview, 0.5)),
    'hand-written p50': rounded(at(byHand, 0.5)),
    ratio: Math.round((at(preview, 0.5) / at(byHand, 0.5)) * 100) / 100,
  };
}

function PAGES(): [string, string][] {
  const orders = [
    'sort=hostname',
    'sort=lastSeenAt&order=desc',
    'sort=status',
    // No device is connected, so nearly all are offline and none is online.
    'sort=agentVersion&status=offline',
    'sort=agentVersion&status=online',
    'osType=linux&sort=enrolledAt',
  ];
  return orders.flatMap((query) => [
    [`${query}, first page`, `${query}&page=1`],
    [`${query}, page 50`, `${query}&page=50`],
  ]);
}

async function measurePage({ person }: Reader, query: string) {
  const times: number[] = [];
  for (let round = -2; round < ROUNDS; round++) {
    const begun = performance.now();
    const { status } = await app.call('GET', `/devices?limit=50&${query}`, { token: person.token });
    if (status !== 200) throw new Error(`${query}: ${status}`);
    if (round >= 0) times.push(performance.now() - begun);
  }
  return { 'ms p50': rounded(at(times, 0.5)), 'ms p95': rounded(at(times, 0.95)) };
}

function at(times: readonly number[], part: number): number {
  return [...times].sort((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0;
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}
