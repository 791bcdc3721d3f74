import { expect } from 'chai';
import { createAuditTrail } from '../../../../src/features/audit/index.ts';
import type { Caller } from '../../../../src/platform/context.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import type { AuditEntry } from '../../../../src/platform/http/audit.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildPerson, buildTenant, signIn } from '../../../support/factories.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { eventually } from '../../../support/eventually.ts';

describe('audit entries', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
  });
  after(() => app.close());

  const inDatabase = async (sql: string, values: string[] = []) =>
    (await withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values))).rows;
  const createSite = (orgId: string, name: string) =>
    app.call('POST', '/orgs/sites', { token: tenant.admin.token, body: { orgId, name } });

  it('are sealed shortly after the deed, without anybody asking', async () => {
    const { body } = await createSite(tenant.orgId, 'Soon');
    const rows = await eventually(
      () => inDatabase('select checksum, prev_checksum from audit_logs where resource_id = ?', [body.id]),
      ({ length }) => length === 1,
    );
    expect(rows[0].checksum).to.match(/^[0-9a-f]{64}$/);
  });

  it('are not there if the deed was undone', async () => {
    const name = 'Never';
    const undone = await withSystem(app.server.database.pool, 'test', async (tx) => {
      await createAuditTrail({ wake() {} }).record(tx, entry({ resourceName: name }));
      throw new Error('on purpose');
    }).catch((error: Error) => error.message);
    expect(undone).to.equal('on purpose');
    await app.server.chainWriter.flush();
    expect(await inDatabase('select from audit_logs where resource_name = ?', [name])).to.deep.equal([]);
  });

  it('are sealed when the server closes', async () => {
    const closing = await createTestApp();
    const other = await buildTenant(closing);
    await closing.call('POST', '/orgs/sites', {
      token: other.admin.token,
      body: { orgId: other.orgId, name: 'Last' },
    });
    await closing.server.close();
    const again = await createTestApp({ database: closing.database });
    const { rows } = await withSystem(again.server.database.pool, 'test', (tx) =>
      tx.raw(
        `select count(*)::int as sealed, (select count(*)::int from audit_outbox) as waiting from audit_logs
        where action = 'site.create'`,
      ),
    );
    expect(rows).to.deep.equal([{ sealed: 1, waiting: 0 }]);
    await again.close();
    await closing.database.drop();
  });

  it('of a partner have a chain of its own', async () => {
    await signIn(app, tenant.admin.email);
    await app.server.chainWriter.flush();
    const system = await buildPerson(app, { scope: 'system' });
    const changed = await app.call('PATCH', `/orgs/partners/${tenant.partnerId}`, {
      token: system.token,
      body: { name: 'Other' },
    });
    expect(changed.status).to.equal(200);
    await app.server.chainWriter.flush();
    const rows = await inDatabase(
      `select action, org_id, partner_id, chain_id, seq::int from audit_logs
      where chain_id = ? order by seq`,
      [tenant.partnerId],
    );
    const { partnerId } = tenant;
    const inChain = { org_id: null, partner_id: partnerId, chain_id: partnerId };
    expect(rows).to.deep.equal([
      { action: 'user.login', ...inChain, seq: 1 },
      { action: 'partner.update', ...inChain, seq: 2 },
    ]);
  });

  function entry(more: Partial<AuditEntry> = {}): AuditEntry {
    const actor = { kind: 'user', userId: newId(), apiKeyId: null, email: 'a@b.example' } as Caller;
    return {
      actor: { ...actor, orgId: tenant.orgId, partnerId: tenant.partnerId },
      action: 'site.update',
      resourceType: 'site',
      state: { client: { ip: '::1', trusted: true, userAgent: null } },
      ...more,
    } as AuditEntry;
  }
  const record = (one: AuditEntry) =>
    withSystem(app.server.database.pool, 'test', (tx) => createAuditTrail({ wake() {} }).record(tx, one));

  it('keep an id that is no UUID in their details', async () => {
    const actor = { ...entry().actor, userId: 'root' } as Caller;
    await record(entry({ actor, resourceId: 'server-1', resourceName: 'Odd', details: { a: 1 } }));
    await app.server.chainWriter.flush();
    const zero = '00000000-0000-0000-0000-000000000000';
    expect(
      await inDatabase(`select actor_id, resource_id, details from audit_logs where resource_name = 'Odd'`),
    ).to.deep.equal([
      { actor_id: zero, resource_id: zero, details: { a: 1, rawActorId: 'root', rawResourceId: 'server-1' } },
    ]);
  });

  it('take whatever text there is, cut to what its column holds', async () => {
    const resourceId = newId();
    await record(
      entry({ resourceId, resourceName: `\0${'😀'.repeat(300)}`, details: { half: '\ud800', '\0': 'x\0' } }),
    );
    await app.server.chainWriter.flush();
    const [row] = await inDatabase('select resource_name, details from audit_logs where resource_id = ?', [
      resourceId,
    ]);
    expect(row.resource_name).to.match(/^\uFFFD(😀)+$/u);
    expect(row.details).to.deep.equal({ half: '\uFFFD', '\uFFFD': 'x\uFFFD' });
  });

  it('are the same written one by one and many at once', async () => {
    const odd: Partial<AuditEntry>[] = [
      { details: { n: 2 ** 60, small: 1e-7, list: [null, {}], text: `'"\\\n\t€😀` } },
      { resourceId: 'server-1', resourceName: `\0${'😀'.repeat(300)}`, details: { '\0': '\ud800' } },
      { result: 'denied', errorMessage: 'no\0', resourceName: '' },
      { action: 'x'.repeat(200), resourceType: '\\N' },
    ];
    const entries = odd.map((one) =>
      entry({ ...one, actor: { ...entry().actor, userId: tenant.admin.id } as Caller }),
    );
    for (const one of entries) await record(one);
    await withSystem(app.server.database.pool, 'test', async (tx) => {
      const trail = createAuditTrail({ wake() {} });
      await trail.recordAll(tx, entries);
      await trail.recordAll(tx, []);
    });
    await app.server.chainWriter.flush();
    const rows: object[] = await inDatabase(
      `select org_id, partner_id, actor_type, actor_id, actor_email, action, resource_type, resource_id,
        resource_name, details::text, ip_address, user_agent, result, error_message
      from audit_logs where chain_id = ? order by seq desc limit ${2 * odd.length}`,
      [tenant.orgId],
    );
    expect(rows.slice(0, odd.length)).to.deep.equal(rows.slice(odd.length));
    expect(rows).to.have.lengthOf(2 * odd.length);
  });

  it('that concern no organization and no partner are dropped, which the log says', async () => {
    const { log, lines } = recordingLog();
    const nobody = { ...entry().actor, orgId: null, partnerId: null } as unknown as Caller;
    await record(entry({ actor: nobody, state: { ...entry().state, log } }));
    expect(lines.map(({ event, level }) => [event, level])).to.deep.equal([
      ['audit.dropped_without_org', 'debug'],
    ]);
  });

  it('have their lag and what fails among the metrics', async () => {
    await createSite(tenant.orgId, 'Measured');
    await app.server.chainWriter.flush();
    const text = await (await fetch(`${app.url}/metrics`)).text();
    expect(text).to.match(/muster_audit_seal_lag_seconds_count [1-9]/);
    expect(text).to.match(/muster_audit_chains_failing 0/);
  });

  it('have their public keys shown to everyone', async () => {
    const { status, body } = await app.call('GET', '/audit-keys');
    expect(status).to.equal(200);
    expect(body.data).to.have.length(1);
    expect(body.pagination).to.deep.equal({ page: 1, limit: 50, total: 1 });
    expect((await app.call('GET', '/audit-keys?page=2')).body).to.deep.equal({
      data: [],
      pagination: { page: 2, limit: 50, total: 1 },
    });
    expect(body.data[0]).to.have.all.keys('keyId', 'algorithm', 'publicKey', 'createdAt', 'retiredAt');
    expect(JSON.stringify(body)).not.to.match(/PRIVATE|v1\./);
  });
});
