import { expect } from 'chai';
import { planScan } from '../../../../src/features/audit/audit-scan.queries.ts';
import { NameIndexCompactor } from '../../../../src/features/audit/index.ts';
import type { Context } from '../../../../src/platform/context.ts';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import { withTenant } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildOrganization, buildPerson, buildTenant, signIn } from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { addEntries, type NewEntry } from './reading-support.ts';

interface Stored {
  id: string;
  at: string;
  org_id: string | null;
  action: string;
  actor_email: string | null;
  resource_type: string;
  resource_name: string | null;
}

describe('pages of the audit trail', function () {
  let app: TestApp;
  let stored: Stored[];
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let callers: { name: string; token: string; sees: (entry: Stored) => boolean }[];

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    const orgs = [tenant.orgId];
    for (let i = 0; i < 11; i++) orgs.push(await buildOrganization(app, tenant.partnerId));
    const stranger = await buildTenant(app);
    const people = Array.from({ length: 1300 }, (_, n) => ({ id: newId(), email: `p${n}.x@example.com` }));
    const entries: NewEntry[] = Array.from({ length: 1500 }, (_, n) => {
      const isOwn = n % 13 === 12;
      const person = people[(n * 7) % 1300];
      return {
        org_id: isOwn ? null : n % 17 === 0 ? stranger.orgId : (orgs[(n * n) % 12] ?? null),
        partner_id: n % 17 === 0 && !isOwn ? stranger.partnerId : tenant.partnerId,
        // Several at the same moment, and not in the order in which they were written.
        timestamp: new Date(Date.UTC(2026, 0, 1) + ((n * 37) % 900) * 60_000).toISOString(),
        actor_id: person?.id ?? '',
        actor_email: n % 5 === 0 ? null : (person?.email ?? null),
        action: n % 200 === 0 ? 'rare.deed' : n % 50 === 1 ? `device.deed.${n % 3}` : `deed.${n % 7}`,
        resource_type: n % 150 === 0 ? 'Odd' : 'thing',
        resource_name: n % 6 === 0 ? null : `Thing ${n % 1350}`,
      };
    });
    // Of the names the first are on sheets, on full ones and others, and the last are noted.
    const compactor = new NameIndexCompactor({ db: app.server.database.hubPool, log: quietLog });
    await addEntries(app, ...entries.slice(0, 700));
    await compactor.compact();
    await addEntries(app, ...entries.slice(700, 1050));
    await compactor.compact();
    await addEntries(app, ...entries.slice(1050));
    const { admin } = tenant;
    const reader = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    const system = await buildPerson(app, { scope: 'system' });
    await signIn(app, admin.email);
    await app.server.chainWriter.flush();
    stored = await asOwner<Stored>(
      app.database.ownerUrl,
      `select id, to_char("timestamp" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, org_id, action, actor_email, resource_type, resource_name
      from audit_logs order by "timestamp" desc, id desc`,
    );
    const visible = new Set(orgs);
    const own = await asOwner<{ id: string }>(
      app.database.ownerUrl,
      'select id from audit_logs where org_id is null and partner_id = $1',
      [tenant.partnerId],
    );
    const owned = new Set(own.map(({ id }) => id));
    callers = [
      { name: 'organization', token: reader.token, sees: (entry) => entry.org_id === tenant.orgId },
      {
        name: 'partner',
        token: admin.token,
        sees: (entry) => (entry.org_id === null ? owned.has(entry.id) : visible.has(entry.org_id)),
      },
      { name: 'system', token: system.token, sees: () => true },
    ];
  });
  after(async () => app.close());

  const has = (text: string | null, part: string) =>
    text?.toLowerCase().includes(part.toLowerCase()) === true;
  const from = '2026-01-01T01:00:00.000Z';
  const to = '2026-01-01T03:20:00.000Z';
  const FILTERS: [query: string, fits: (entry: Stored) => boolean][] = [
    ['', () => true],
    ['action=rare.deed', ({ action }) => action === 'rare.deed'],
    ['action=deed.3', ({ action }) => action === 'deed.3'],
    ['action=none', () => false],
    ['category=device', ({ action }) => action.startsWith('device.')],
    ['category=policy', () => false],
    ['category=device&action=deed.3', () => false],
    ['category=device&action=device.deed.1', ({ action }) => action === 'device.deed.1'],
    [
      `category=system&from=${from}`,
      ({ action, at }) => at >= from && !action.startsWith('device.') && !action.startsWith('user.log'),
    ],
    [
      'category=device&user=P1',
      ({ action, actor_email: email }) => action.startsWith('device.') && has(email, 'p1'),
    ],
    [`from=${from}`, ({ at }) => at >= from],
    [`from=${from}&to=${to}`, ({ at }) => at >= from && at <= to],
    // Few people, more than are looked for one by one, and none.
    ['user=P17.', ({ actor_email: email }) => has(email, 'p17.')],
    ['user=x@example', ({ actor_email: email }) => has(email, 'x@example')],
    ['user=nobody', () => false],
    ['user=P1&action=deed.2', ({ actor_email: email, action }) => has(email, 'p1') && action === 'deed.2'],
    // By the type, where there may be no name, and by part of the name.
    ['resource=odd', ({ resource_type: type, resource_name: name }) => type === 'Odd' || has(name, 'odd')],
    ['resource=THING%2034', ({ resource_name: name }) => has(name, 'thing 34')],
    [
      'resource=thing',
      ({ resource_type: type, resource_name: name }) => type === 'thing' || has(name, 'thing'),
    ],
    ['resource=none', () => false],
    [
      'resource=odd&user=p',
      ({ resource_type: type, actor_email: email }) => type === 'Odd' && has(email, 'p'),
    ],
  ];

  for (const [query, fits] of FILTERS) {
    for (const scope of ['organization', 'partner', 'system'] as const) {
      it(`show each entry once and in order to a person of the scope ${scope}: ${query === '' ? 'all' : query}`, async () => {
        const { token, sees } = callers.find(({ name }) => name === scope)!;
        const expected = stored.filter((entry) => sees(entry) && fits(entry)).map(({ id }) => id);
        const shown: string[] = [];
        for (let page = 1; page <= Math.ceil(expected.length / 100) + 1; page++) {
          const { body } = await app.call('GET', `/audit-logs/logs?limit=100&page=${page}&${query}`, {
            token,
          });
          expect(body.pagination).to.include({ total: expected.length });
          shown.push(...body.data.map(({ id }: { id: string }) => id));
        }
        expect(shown).to.deep.equal(expected);
      });
    }
  }

  it('are scanned if more names match than are looked for one by one', async () => {
    const caller: TenantScope = {
      scope: 'system',
      userId: null,
      partnerId: null,
      orgAccess: 'all',
      orgIds: [],
    };
    await withTenant(app.server.database.pool, caller, async (tx) => {
      const ctx = { tx, caller: { ...caller, orgId: null } } as unknown as Context;
      const plan = async (filter: object) => (await planScan(ctx, filter)).isUnselective;
      expect(await plan({ user: 'x@example' })).to.equal(true);
      expect(await plan({ resource: 'thing' })).to.equal(true);
      expect(await plan({ user: 'P17.' })).to.equal(false);
    });
  });

  it('are those of one organization, if a person who sees several asks for one', async () => {
    const { orgId } = tenant;
    const of = (fits: (entry: Stored) => boolean) =>
      stored.filter((entry) => entry.org_id === orgId && fits(entry)).map(({ id }) => id);
    for (const { name, token } of callers) {
      for (const [query, fits] of FILTERS.filter(([some]) => some === '' || some.includes('category'))) {
        const path = `/audit-logs/logs?limit=100&orgId=${orgId}&${query}`;
        const { body } = await app.call('GET', path, { token });
        expect(
          body.data.map(({ id }: { id: string }) => id),
          `${name} ${query}`,
        ).to.deep.equal(of(fits).slice(0, 100));
        expect(body.pagination.total, `${name} ${query}`).to.equal(of(fits).length);
      }
    }
  });

  it('are found by names, each of which is either compacted or new', async () => {
    const noted = await asOwner(
      app.database.ownerUrl,
      `select chain_id, resource_type, resource_name from audit_resources order by 1, 2, 3`,
    );
    const read = await asOwner(
      app.database.ownerUrl,
      `select chain_id, resource_type, name as resource_name from audit_name_sheets, unnest(names) as name
      union all
      select chain_id, resource_type, resource_name from audit_resources r where no > (
        select coalesce(max(through), 0) from audit_name_sheets s where s.chain_id = r.chain_id)
      order by 1, 2, 3`,
    );
    expect(read).to.deep.equal(noted);
    const onSheets = await asOwner(app.database.ownerUrl, 'select from audit_name_sheets, unnest(names)');
    expect(onSheets.length).to.be.within(1, noted.length - 1);
  });

  it('are found on late pages as well, by scanning', async () => {
    const { token, sees } = callers[1]!;
    const expected = stored.filter(sees).map(({ id }) => id);
    const { body } = await app.call('GET', `/audit-logs/logs?limit=1&page=${expected.length}`, { token });
    expect(body.data.map(({ id }: { id: string }) => id)).to.deep.equal(expected.slice(-1));
    const past = await app.call('GET', '/audit-logs/logs?limit=100&page=900', { token });
    expect([past.status, past.body.data, past.body.pagination.total]).to.deep.equal([
      200,
      [],
      expected.length,
    ]);
  });

  it('find a person by the current name, whatever the entry says', async () => {
    const { token } = callers[1]!;
    const [person] = await asOwner<{ actor_id: string; count: number }>(
      app.database.ownerUrl,
      `select actor_id, count(*)::int from audit_logs where action = 'user.login' and actor_id in (
        select user_id from partner_users) group by 1 order by 2 desc limit 1`,
    );
    await asOwner(app.database.ownerUrl, `update users set name = 'Zoë Renamed' where id = $1`, [
      person?.actor_id,
    ]);
    const { body } = await app.call('GET', '/audit-logs/logs?user=zoë%20ren', { token });
    expect(body.data.map(({ user }: { user: { id: string } }) => user.id)).to.deep.equal([person?.actor_id]);
  });
});
