import { expect } from 'chai';
import { buildOrganization, buildPerson, buildTenant } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('the verification of an audit chain by the API', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    await addSite();
  });
  after(() => app?.close());

  const post = (path: string, body: object, token = tenant.admin.token) =>
    app.call('POST', path, { token, body });
  const verify = (orgId: string | null, token?: string) => post('/audit-logs/verify', { orgId }, token);
  /** An entry in the chain of the organization. */
  const addSite = async () => {
    await post('/orgs/sites', { orgId: tenant.orgId, name: 'Harbour' });
    await app.server.chainWriter.flush();
  };
  const asDatabaseOwner = async (sql: string) => {
    const { ownerUrl } = app.database;
    await asOwner(ownerUrl, 'alter table audit_chain_heads disable trigger user');
    await asOwner(ownerUrl, sql, [tenant.orgId]);
  };

  it('covers an organization, or the own partner, and is in the trail itself', async () => {
    const { status, body } = await verify(tenant.orgId);
    expect(status).to.equal(200);
    expect(body).to.include({ chainId: tenant.orgId, entries: 1, fault: null });
    await app.server.chainWriter.flush();
    const get = (path: string) => app.call('GET', `/audit-logs/logs${path}`, { token: tenant.admin.token });
    const [noted] = (await get('?action=audit_logs.verify')).body.data;
    const entry = (await get(`/${noted.id}`)).body;
    expect(entry).to.deep.include({ orgId: tenant.orgId, details: { entries: 1, fault: null } });
    expect((await verify(null)).body).to.include({ chainId: tenant.partnerId, fault: null });
  });

  it('finds a chain intact in which nothing was ever recorded, and not one whose head is gone', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId);
    expect((await verify(orgId)).body).to.include({ chainId: orgId, entries: 0, fault: null });
    await asDatabaseOwner('delete from audit_chain_heads where chain_id = $1');
    expect((await verify(tenant.orgId)).body.fault).to.deep.equal({
      seq: null,
      entryId: null,
      reason: 'the signed head of the chain is missing',
    });
  });

  it('is refused for another tenant, for no chain, and for one that would take too long', async () => {
    const other = await buildTenant(app);
    expect((await verify(other.orgId)).status).to.equal(404);
    const system = await buildPerson(app, { scope: 'system' });
    expect((await verify(null, system.token)).body.details[0].path).to.equal('body.orgId');
    expect((await verify(other.orgId, system.token)).status).to.equal(200);
    await post('/orgs/sites', { orgId: other.orgId, name: 'Harbour' }, other.admin.token);
    await app.server.chainWriter.flush();
    await asOwner(app.database.ownerUrl, 'update audit_chain_heads set seq = 500001 where chain_id = $1', [
      other.orgId,
    ]);
    const refused = await verify(other.orgId, other.admin.token);
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'CONFLICT']);
    expect(refused.body.error).to.include('muster audit verify');
  });
});
