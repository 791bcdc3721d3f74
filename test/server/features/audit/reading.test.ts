import { expect } from 'chai';
import { categoryOf } from '../../../../src/features/audit/audit.schema.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildOrganization, buildPerson, buildTenant, signIn } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { addEntries } from './reading-support.ts';

interface Entry {
  id: string;
  action: string;
  timestamp: string;
}
const ids = (entries: Entry[]) => entries.map(({ id }) => id);

describe('reading the audit trail', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let token: string;
  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    token = (await buildPerson(app, { scope: 'organization', orgId: tenant.orgId })).token;
  });
  after(() => app.close());

  const get = (path: string, as = token) => app.call('GET', `/audit-logs${path}`, { token: as });
  const found = async (query: string, as = token) => {
    const { status, body } = await get(`/logs?${query}`, as);
    expect(status, JSON.stringify(body)).to.equal(200);
    return ids(body.data);
  };
  /** An organization of its own, so that lists hold nothing else. */
  async function place() {
    const orgId = await buildOrganization(app, tenant.partnerId);
    const reader = await buildPerson(app, { scope: 'organization', orgId });
    return { orgId, token: reader.token, reader };
  }

  it('shows an entry in each of its three forms', async () => {
    const { orgId, token: own, reader } = await place();
    await signIn(app, reader.email);
    const details = { before: { name: 'A' }, after: { name: 'B' }, sessionId: 'abc' };
    const resourceId = newId();
    const [id] = await addEntries(app, {
      org_id: orgId,
      actor_id: reader.id,
      actor_email: reader.email,
      action: 'organization.update',
      resource_type: 'organization',
      resource_id: resourceId,
      resource_name: 'Acme',
      details,
      timestamp: '2026-01-02T03:04:05.678Z',
    });
    const only = `from=2026-01-02&to=2026-01-02`;
    const shown = (await get(`?${only}`, own)).body;
    const name = shown.entries[0].user.name;
    expect(name).to.match(/^Person /);
    expect(shown).to.deep.equal({
      entries: [
        {
          id,
          timestamp: '2026-01-02T03:04:05.678Z',
          action: 'organization.update',
          resource: 'Acme',
          resourceType: 'organization',
          details: shown.entries[0].details,
          ipAddress: '203.0.113.5',
          userAgent: 'Test/1',
          sessionId: 'abc',
          user: { name, email: reader.email, role: 'Organization Admin', department: null },
          changes: { before: details.before, after: details.after },
        },
      ],
      pagination: { page: 1, limit: 50, total: 1, totalPages: 1 },
    });
    expect(JSON.parse(shown.entries[0].details)).to.deep.equal(details);
    const listed = {
      id,
      timestamp: '2026-01-02T03:04:05.678Z',
      user: { id: reader.id, name, email: reader.email, role: 'Organization Admin' },
      action: 'organization.update',
      resource: { type: 'organization', id: resourceId, name: 'Acme' },
      category: 'organization',
      result: 'success',
      ipAddress: '203.0.113.5',
      userAgent: 'Test/1',
      details,
    };
    const logs = (await get(`/logs?${only}`, own)).body;
    expect(logs).to.deep.equal({
      data: [listed],
      pagination: { page: 1, limit: 50, total: 1, totalPages: 1 },
    });
    const { checksum, prevChecksum, seq, ...full } = (await get(`/logs/${id}`, own)).body;
    expect(full).to.deep.equal({
      ...listed,
      orgId,
      partnerId: null,
      actorType: 'user',
      actorId: reader.id,
      errorMessage: null,
    });
    expect(checksum).to.match(/^[0-9a-f]{64}$/);
    // Behind the sign-in of who reads.
    expect(seq).to.equal(2);
    expect(prevChecksum).to.match(/^[0-9a-f]{64}$/);
  });

  it('lists newest first, in pages, with or without a total', async () => {
    const { orgId, token: own } = await place();
    const made = await addEntries(
      app,
      ...['01', '03', '02'].map((day) => ({ org_id: orgId, timestamp: `2026-01-${day}T00:00:00Z` })),
    );
    const order = [made[1], made[2], made[0]];
    const before = 'to=2026-01-31';
    expect(await found(before, own)).to.deep.equal(order);
    expect(await found(`${before}&limit=2&page=2`, own)).to.deep.equal([made[0]]);
    const { pagination } = (await get(`?${before}&limit=2&page=2`, own)).body;
    expect(pagination).to.deep.equal({ page: 2, limit: 2, total: 3, totalPages: 2 });
    expect((await get(`?${before}&skipCount=true`, own)).body.pagination).to.deep.equal({
      page: 1,
      limit: 50,
    });
    expect((await get(`?${before}&limit=1000&page=-3`, own)).body.pagination).to.include({
      page: 1,
      limit: 100,
    });
  });

  it('narrows down by person, action, resource and time, all of them at once', async () => {
    const { orgId, token: own, reader } = await place();
    const at = (hour: string) => `2026-02-01T${hour}:00:00Z`;
    const [a, b, c] = await addEntries(
      app,
      { org_id: orgId, actor_email: 'Ann_B@example.com', action: 'site.create', timestamp: at('01') },
      {
        org_id: orgId,
        actor_id: reader.id,
        actor_email: null,
        action: 'site.update',
        timestamp: at('02'),
        resource_name: '100% wool',
      },
      { org_id: orgId, actor_email: 'annxb@example.com', resource_type: 'site', timestamp: at('03') },
    );
    const { name } = (await get(`/logs/${b}`, own)).body.user;
    const on = 'from=2026-02-01&to=2026-02-01';
    expect(await found(`${on}&user=ann_b`, own)).to.deep.equal([a]);
    expect(await found(`${on}&user=${encodeURIComponent(name.toUpperCase())}`, own)).to.deep.equal([b]);
    expect(await found(`${on}&action=site.update`, own)).to.deep.equal([b]);
    expect(await found(`${on}&action=site`, own)).to.deep.equal([]);
    expect(await found(`${on}&resource=SITE`, own)).to.deep.equal([c]);
    expect(await found(`${on}&resource=0%25 W`, own)).to.deep.equal([b]);
    expect(await found(`from=${at('02')}&to=${at('03')}`, own)).to.deep.equal([c, b]);
    expect(await found(`from=2026-02-01T04:00:00%2B02:00&to=${at('02')}`, own)).to.deep.equal([b]);
    expect(await found(`${on}&user=ann&action=site.create&resource=thing`, own)).to.deep.equal([a]);
    expect(await found(`${on}&user=ann&action=site.update`, own)).to.deep.equal([]);
  });

  it('searches action, address, resource and details, together with the filters', async () => {
    const { orgId, token: own } = await place();
    const word = `Needle${newId().slice(-6)}`;
    const some = { org_id: orgId };
    const made = await addEntries(
      app,
      { ...some, action: `x.${word}` },
      { ...some, actor_email: `${word}@example.com` },
      { ...some, resource_type: word },
      { ...some, resource_name: `my ${word}` },
      { ...some, details: { deep: [{ [word]: 1 }] } },
      some,
    );
    const search = async (query: string) => (await get(`/search?${query}`, own)).body;
    const all = await search(`q=${word.toUpperCase()}`);
    expect(ids(all.data)).to.have.members(made.slice(0, 5));
    expect(all.pagination).to.deep.equal({ page: 1, limit: 50, total: 5, totalPages: 1 });
    expect(ids((await search(`q=${word}&user=${word}`)).data)).to.deep.equal([made[1]]);
    expect((await search(`q=${word}%25`)).data).to.deep.equal([]);
    const resourceId = newId();
    const about = await addEntries(
      app,
      { ...some, resource_id: resourceId, resource_name: null },
      { ...some, details: { deviceId: resourceId } },
      { ...some, resource_id: newId() },
    );
    expect(ids((await search(`q=${resourceId}`)).data)).to.have.members(about.slice(0, 2));
    expect((await search(`q=${word}&skipCount=true`)).pagination).to.deep.equal({ page: 1, limit: 50 });
  });

  it('refuses what it cannot read, naming it', async () => {
    for (const [path, field] of [
      ['?from=yesterday', 'from'],
      ['?to=2026-02-30', 'to'],
      ['?from=2026-02-02&to=2026-02-01', 'from'],
      ['/logs?from=2026-02-01T00:00:00.001Z&to=2026-02-01T00:00:00Z', 'from'],
      ['?skipCount=perhaps', 'skipCount'],
      ['/search', 'q'],
      ['/search?q=', 'q'],
      ['/search?q=x&from=2026-02-02&to=2026-02-01', 'from'],
      ['/stats?from=2026-02-02&to=2026-02-01', 'from'],
      ['/reports/compliance?to=x', 'to'],
      ['?category=devices', 'category'],
      ['/stats?orgId=x', 'orgId'],
    ] as const) {
      const { status, body } = await get(path);
      expect([status, body.code, body.details?.[0]?.path], path).to.deep.equal([
        400,
        'VALIDATION_FAILED',
        `query.${field}`,
      ]);
    }
  });

  it('keeps each to its own: organizations, partners, the system', async () => {
    const [mine, second] = [await place(), await place()];
    const foreign = await buildTenant(app);
    const action = `tenancy.${newId().slice(-8)}`;
    const [ofMine, ofSecond, ofPartner, ofForeign, ofForeignPartner] = await addEntries(
      app,
      { org_id: mine.orgId, action },
      { org_id: second.orgId, partner_id: tenant.partnerId, action },
      { partner_id: tenant.partnerId, action },
      { org_id: foreign.orgId, action },
      { partner_id: foreign.partnerId, action },
    );
    const chosen = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [second.orgId],
    });
    const system = await buildPerson(app, { scope: 'system' });
    const seen: [string, string, (string | undefined)[]][] = [
      ['organization', mine.token, [ofMine]],
      ['partner', tenant.admin.token, [ofPartner, ofSecond, ofMine]],
      ['partner, one organization', chosen.token, [ofPartner, ofSecond]],
      ['other partner', foreign.admin.token, [ofForeignPartner, ofForeign]],
      ['system', system.token, [ofForeignPartner, ofForeign, ofPartner, ofSecond, ofMine]],
    ];
    for (const [who, as, visible] of seen) {
      expect(await found(`action=${action}`, as), who).to.have.members(visible);
      for (const id of [ofMine, ofSecond, ofPartner, ofForeign, ofForeignPartner]) {
        const { status } = await get(`/logs/${id}`, as);
        expect(status, `${who} ${id}`).to.equal(visible.includes(id) ? 200 : 404);
      }
      const { totalEvents, byCategory } = (await get('/stats', as)).body;
      const counted = byCategory.map(({ count }: { count: number }) => count);
      expect(totalEvents, who).to.equal(counted.reduce((sum: number, one: number) => sum + one, 0));
      const hits = (await get(`/search?q=${action}`, as)).body.pagination.total;
      expect(hits, who).to.equal(visible.length);
    }
  });

  it('is narrowed to one organization by people who may see it, in lists and in reports', async () => {
    const [one, other] = [await place(), await place()];
    const foreign = await buildTenant(app);
    const at = '2026-04-01T00:00:00Z';
    const some = { action: 'data.access', timestamp: at };
    await addEntries(
      app,
      { org_id: one.orgId, ...some },
      { org_id: other.orgId, ...some },
      {
        partner_id: tenant.partnerId,
        ...some,
      },
    );
    const count = async (path: string) => {
      const { status, body } = await get(path, tenant.admin.token);
      return status === 200 ? (body.totalEvents ?? body.pagination.total) : [status, body.error];
    };
    for (const path of ['/logs', '/stats', '/reports/user-activity', '/reports/compliance']) {
      const on = `${path}?from=2026-04-01&to=2026-04-01`;
      expect(await count(on), path).to.equal(3);
      expect(await count(`${on}&orgId=${one.orgId}`), path).to.equal(1);
      expect(await count(`${on}&orgId=${foreign.orgId}`), path).to.deep.equal([
        403,
        'Access to this organization denied',
      ]);
    }
  });

  it('is for those with the permission', async () => {
    for (const path of ['', '/logs', '/search?q=x', '/stats', '/reports/compliance']) {
      const { status, body } = await get(path, tenant.technician.token);
      expect([status, body.code], path).to.deep.equal([403, 'FORBIDDEN']);
    }
  });

  it('reports who did how much', async () => {
    const { orgId, token: own, reader } = await place();
    const other = newId();
    const at = (minute: number) => `2026-03-01T00:${String(minute).padStart(2, '0')}:00Z`;
    const by = (actor_id: string, minute: number) => ({ org_id: orgId, actor_id, timestamp: at(minute) });
    await addEntries(
      app,
      ...Array.from({ length: 8 }, (_, n) => by(reader.id, n)),
      ...Array.from({ length: 4 }, (_, n) => by(other, 10 + n)),
      ...Array.from({ length: 5 }, (_, n) => by(newId(), 20 + n)),
      { ...by(newId(), 30), actor_type: 'agent' },
    );
    const { body } = await get('/reports/user-activity?from=2026-03-01&to=2026-03-01', own);
    expect(body).to.include({ totalUsers: 7, totalEvents: 17 });
    expect(body.actionsPerUser).to.have.length(7);
    expect(body.topUsers).to.deep.equal(body.actionsPerUser.slice(0, 5));
    expect(body.topUsers[0]).to.include({ userId: reader.id, actionCount: 8 });
    expect(body.topUsers[0].userName).to.match(/^Person /);
    expect(Date.parse(body.topUsers[0].lastActiveAt)).to.equal(Date.parse(at(7)));
    expect(body.topUsers[1]).to.include({ userId: other, userName: null, actionCount: 4 });
    expect(body.recentActivity).to.have.length(10);
    expect(Date.parse(body.recentActivity[0].timestamp)).to.equal(Date.parse(at(24)));
  });

  it('reports security events and compliance', async () => {
    const { orgId, token: own } = await place();
    const times = (count: number, action: string) =>
      Array.from({ length: count }, () => ({ org_id: orgId, action, timestamp: '2026-03-02T00:00:00Z' }));
    await addEntries(
      app,
      ...times(3, 'user.login'),
      ...times(2, 'user.login.failed'),
      ...times(1, 'user.permission.change'),
      ...times(1, 'agent.source.ip.changed'),
      ...times(2, 'policy.update'),
      ...times(4, 'data.access'),
      ...times(2, 'data.export'),
      ...times(1, 'script.execute'),
      ...times(5, 'organization.update'),
      ...times(9, 'site.update'),
    );
    const range = 'from=2026-03-02&to=2026-03-02';
    const { recentEvents, ...security } = (await get(`/reports/security-events?${range}`, own)).body;
    expect(security).to.deep.equal({
      totalEvents: 9,
      loginAttempts: 5,
      failedLogins: 2,
      permissionChanges: 1,
      byAction: [
        { action: 'user.login', count: 3 },
        { action: 'policy.update', count: 2 },
        { action: 'user.login.failed', count: 2 },
        { action: 'agent.source.ip.changed', count: 1 },
        { action: 'user.permission.change', count: 1 },
      ],
    });
    expect(recentEvents).to.have.length(9);
    const {
      recentEvents: latest,
      byAction,
      ...compliance
    } = (await get(`/reports/compliance?${range}`, own)).body;
    expect(compliance).to.deep.equal({ totalEvents: 14, dataAccess: 4, dataChanges: 7, exports: 2 });
    expect(byAction[0]).to.deep.equal({ action: 'organization.update', count: 5 });
    expect(latest).to.have.length(10);
    const stats = (await get(`/stats?${range}`, own)).body;
    expect(stats.totalEvents).to.equal(30);
    expect(stats.byCategory).to.deep.equal([
      { category: 'system', count: 10 },
      { category: 'authentication', count: 6 },
      { category: 'compliance', count: 6 },
      { category: 'organization', count: 5 },
      { category: 'policy', count: 2 },
      { category: 'automation', count: 1 },
    ]);
    expect(stats.range).to.deep.equal({ from: '2026-03-02T00:00:00.000Z', to: '2026-03-02T23:59:59.999Z' });
  });

  it('counts no more than 5,000 entries in a report, the newest', async () => {
    const { orgId, token: own } = await place();
    const made = (count: number, action: string, day: string) =>
      Array.from({ length: count }, () => ({ org_id: orgId, action, timestamp: `2026-03-${day}T00:00:00Z` }));
    await addEntries(app, ...made(10, 'data.export', '01'));
    for (let n = 0; n < 5; n++) await addEntries(app, ...made(999, 'data.access', '02'));
    const { totalEvents, dataAccess, exports } = (await get('/reports/compliance', own)).body;
    expect({ totalEvents, dataAccess, exports }).to.deep.equal({
      totalEvents: 5000,
      dataAccess: 4995,
      exports: 5,
    });
  });
});

describe('the category of an action', () => {
  for (const [action, category] of [
    ['user.login', 'authentication'],
    ['user.login.failed', 'authentication'],
    ['user.logout', 'authentication'],
    ['user.permission.change', 'authentication'],
    ['user.update', 'system'],
    ['device.delete', 'device'],
    ['script.execute', 'automation'],
    ['policy.update', 'policy'],
    ['automation.policy.evaluate', 'policy'],
    ['automation.run', 'system'],
    ['alert.resolve', 'alert'],
    ['data.access', 'compliance'],
    ['organization.create', 'organization'],
    ['organizations', 'system'],
    ['devices', 'system'],
    ['', 'system'],
  ]) {
    it(`of ${action} is ${category}`, () => expect(categoryOf(action ?? '')).to.equal(category));
  }
});
