import { expect } from 'chai';
import type { TestApp } from '../../../../support/test-app.ts';
import { createSsoApp, insertProvider, query } from '../../../../support/sso/sso-support.ts';
import { buildSsoTenant, requestsOf, type SsoTenant } from './administration-support.ts';

describe('changes of providers', () => {
  let app: TestApp;
  let tenant: SsoTenant;
  before(async () => {
    app = await createSsoApp();
    tenant = await buildSsoTenant(app);
  });
  after(() => app.close());

  const lastEntry = async () => {
    await app.server.chainWriter.flush();
    const { body } = await app.call('GET', '/audit-logs?limit=1', { token: tenant.admin.token });
    const [entry] = body.entries;
    return { ...entry, details: JSON.parse(entry.details) };
  };

  it('are in the trail with what was done', async () => {
    const { create, change, remove, status, test } = requestsOf(app, tenant.admin);
    const { id } = (await create({ orgId: tenant.orgId, preset: 'auth0' })).body;
    const created = await lastEntry();
    expect(created.action).to.equal('sso.provider.create');
    expect(created.details).to.deep.include({ type: 'oidc', status: 'inactive', preset: 'auth0' });
    await change(id, { clientSecret: 'hunter2', scopes: 'openid' });
    const updated = await lastEntry();
    expect(updated.action).to.equal('sso.provider.update');
    expect(updated.details.changedFields).to.have.members(['clientSecret', 'scopes']);
    expect(updated.changes.after).to.deep.include({ clientSecret: '(secret)', scopes: 'openid' });
    await status(id, 'testing');
    expect((await lastEntry()).changes.after).to.deep.include({ status: 'testing' });
    expect(await lastEntry()).to.deep.include({ action: 'sso.provider.status.update' });
    await test(id);
    const tested = await lastEntry();
    expect(tested.details).to.deep.include({ success: false, failed: ['configuration'] });
    expect(tested).to.deep.include({ action: 'sso.provider.test' });
    await remove(id);
    expect(await lastEntry()).to.deep.include({ action: 'sso.provider.delete', details: { type: 'oidc' } });
  });

  it('are checked regularly, by a job with figures for the operator', async () => {
    const scheduled = await query(app, "select name from job_schedules where name = 'sso.check-providers'");
    expect(scheduled).to.have.length(1);
    const figures = await (await fetch(`${app.url}/metrics`)).text();
    expect(figures).to.include('muster_sso_provider_checks_total');
  });

  it('are possible for fifty of them at most, however many come at once', async () => {
    const { orgAdmin, orgId, admin } = await buildSsoTenant(app);
    for (let i = 0; i < 48; i++) await insertProvider(app, { org_id: orgId }, { status: 'inactive' });
    const { create } = requestsOf(app, orgAdmin);
    const answers = await Promise.all([1, 2, 3, 4, 5].map(() => create({})));
    expect(answers.filter(({ status }) => status === 201)).to.have.length(2);
    const refused = answers.find(({ status }) => status !== 201);
    expect([refused?.status, refused?.body.code]).to.deep.equal([403, 'LIMIT_REACHED']);
    expect((await requestsOf(app, admin).create({ ownerScope: 'partner' })).status).to.equal(201);
  });
});
