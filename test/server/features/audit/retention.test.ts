import { expect } from 'chai';
import { buildTenant } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('audit retention', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());

  const pathOf = (orgId: string) => `/orgs/organizations/${orgId}/audit-retention`;
  const read = (orgId = tenant.orgId, { token } = tenant.admin) => app.call('GET', pathOf(orgId), { token });
  const choose = (body: object, orgId = tenant.orgId, { token } = tenant.admin) =>
    app.call('PUT', pathOf(orgId), { token, body });
  const DEFAULTS = {
    retentionDays: 365,
    archiveToS3: false,
    lastCleanupAt: null,
    lastFailure: null,
    cleanup: 'on',
    archive: 'off',
  };

  it('has defaults, can be chosen, and is told in the audit trail', async () => {
    expect((await read()).body).to.deep.equal(DEFAULTS);
    const { status, body } = await choose({ retentionDays: 90, archiveToS3: false });
    expect([status, body]).to.deep.equal([200, { ...DEFAULTS, retentionDays: 90 }]);
    expect((await read()).body).to.deep.equal({ ...DEFAULTS, retentionDays: 90 });
    await app.server.chainWriter.flush();
    const rows = await asOwner(
      app.database.ownerUrl,
      `select org_id, details from audit_logs where action = 'organization.audit_retention.update'`,
    );
    expect(rows).to.deep.equal([
      {
        org_id: tenant.orgId,
        details: {
          before: { retentionDays: 365 },
          after: { retentionDays: 90 },
        },
      },
    ]);
  });

  it('is chosen within bounds, by people who may, of their own organizations', async () => {
    const good = { retentionDays: 30, archiveToS3: false };
    for (const wrong of [
      { retentionDays: 29 },
      { retentionDays: 3651 },
      { retentionDays: 30.5 },
      { retentionDays: '90' },
      { archiveToS3: 'yes' },
      { lastCleanupAt: null },
    ]) {
      expect((await choose({ ...good, ...wrong })).status, JSON.stringify(wrong)).to.equal(400);
    }
    expect((await choose({ retentionDays: 30 })).status).to.equal(400);
    expect((await choose(good, tenant.orgId, tenant.technician)).status).to.equal(403);
    const stranger = await buildTenant(app);
    expect((await choose(good, tenant.orgId, stranger.admin)).status).to.equal(404);
    expect((await read(tenant.orgId, stranger.admin)).status).to.equal(404);
  });

  it('asks for no copies if there is no archive', async () => {
    const { status, body } = await choose({ retentionDays: 90, archiveToS3: true });
    expect([status, body.details[0].path]).to.deep.equal([400, 'body.archiveToS3']);
  });

  it('tells what came of the last cleanup', async () => {
    await asOwner(
      app.database.ownerUrl,
      `update audit_retention_policies set last_cleanup_at = '2026-01-02T03:04:05Z',
        last_failure_at = '2026-02-03T04:05:06Z', last_failure = 'It was full.' where org_id = $1`,
      [tenant.orgId],
    );
    expect((await read()).body).to.deep.include({
      lastCleanupAt: '2026-01-02T03:04:05.000Z',
      lastFailure: { at: '2026-02-03T04:05:06.000Z', reason: 'It was full.' },
    });
  });

  it('says if nothing is ever removed, in the answer and once in the log', async () => {
    const { ownerUrl, appUrl } = app.database;
    const other = await createTestApp({ database: { ownerUrl, appUrl, drop: async () => {} } });
    const { body } = await other.call('GET', pathOf(tenant.orgId), { token: tenant.admin.token });
    expect(body.cleanup).to.equal('off');
    expect(other.log.filter(({ event }) => event === 'audit.cleanup_off')).to.have.lengthOf(1);
    await other.close();
    expect(app.log.filter(({ event }) => event === 'audit.cleanup_off')).to.have.lengthOf(0);
  });
});
