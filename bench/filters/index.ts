import { setTimeout } from 'node:timers/promises';
import { previewConditions } from '../../src/features/filters/preview.service.ts';
import type { Context } from '../../src/platform/context.ts';
import { inTenant } from '../../src/platform/db/tenant-filter.ts';
import type { TenantScope } from '../../src/platform/db/tenant-scope.ts';
import { withTenant } from '../../src/platform/db/transaction.ts';
import { buildPerson, type Person } from '../../test/support/factories.ts';
import { createTestApp, type TestApp } from '../../test/support/test-app.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../../test/support/test-postgres.ts';
import { handwritten, questions, type Question } from './questions.ts';
import { DEVICES, OF_PARTNER, ORGANIZATIONS, organizationId, PARTNER, seed } from './seed.ts';

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

/** `preview` validates, compiles and queries like `request`, but without HTTP, sign-in check and audit entry. */
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
