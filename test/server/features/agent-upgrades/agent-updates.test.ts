import { expect } from 'chai';
import { buildOrganization, buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { withSystem, withTenant } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { registerVersions } from '../../../support/releases/registered-versions.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

const WEEKEND = { days: ['sat', 'sun'], start: '22:00', end: '04:00' };

describe('the agent updates of an organization', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let people: Record<'partner' | 'organization' | 'system', Person>;

  before(async () => {
    app = await sharedTestApp();
    await registerVersions(app, '1.1.0', '1.4.0', '1.5.0');
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    people = {
      partner: tenant.admin,
      organization: await buildPerson(app, { scope: 'organization', orgId: tenant.orgId }),
      system: await buildPerson(app, { scope: 'system' }),
    };
  });

  const read = (token: string, orgId = tenant.orgId) =>
    app.call('GET', `/orgs/organizations/${orgId}/agent-updates`, { token });
  const set = async (path: string, agentUpdates: unknown) => {
    const { status } = await app.call('PATCH', path, {
      token: tenant.admin.token,
      body: { settings: { agentUpdates } },
    });
    expect(status).to.equal(200);
  };
  const setPartner = (agentUpdates: unknown) => set('/orgs/partners/me', agentUpdates);
  const setOrganization = (agentUpdates: unknown) => set(`/orgs/organizations/${tenant.orgId}`, agentUpdates);

  it('are the defaults if nothing is set', async () => {
    for (const { token } of Object.values(people)) {
      const { status, body } = await read(token);
      expect([status, body]).to.deep.equal([
        200,
        {
          pins: {
            agent: { value: 'latest', level: 'default' },
            watchdog: { value: 'latest', level: 'default' },
          },
          policy: { value: 'auto', level: 'default' },
          maintenanceWindow: { value: null, level: 'default' },
        },
      ]);
    }
  });

  it('are shown with their levels to readers of every scope', async () => {
    await setPartner({ pins: { agent: '1.4.0', watchdog: '1.1.0' }, maintenanceWindow: WEEKEND });
    await setOrganization({ pins: { agent: 'latest' }, policy: 'manual', maintenanceWindow: null });
    for (const { token } of Object.values(people)) {
      expect((await read(token)).body).to.deep.equal({
        pins: {
          agent: { value: 'latest', level: 'organization' },
          watchdog: { value: '1.1.0', level: 'partner' },
        },
        policy: { value: 'manual', level: 'organization' },
        maintenanceWindow: { value: WEEKEND, level: 'partner' },
      });
    }
  });

  it('follow the partner again when the organization takes its settings out', async () => {
    await setPartner({ pins: { agent: '1.4.0' }, policy: 'staged' });
    await setOrganization({ pins: { agent: '1.5.0' }, policy: 'auto' });
    await setOrganization(null);
    const { body } = await read(tenant.admin.token);
    expect(body.pins.agent).to.deep.equal({ value: '1.4.0', level: 'partner' });
    expect(body.policy).to.deep.equal({ value: 'staged', level: 'partner' });
  });

  it('are manual if a value was stored before there were rules for it', async () => {
    await withSystem(app.server.database.pool, 'test data', (tx) =>
      tx('organizations')
        .where('id', tenant.orgId)
        .update({ settings: { agentUpdates: 'whenever' } }),
    );
    expect((await read(tenant.admin.token)).body.policy).to.deep.equal({
      value: 'manual',
      level: 'organization',
    });
  });

  it('are not shown to others, nor of an organization that does not exist', async () => {
    const other = await buildTenant(app);
    const sibling = await buildOrganization(app, tenant.partnerId);
    const selected = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [sibling],
    });
    for (const [token, orgId] of [
      [other.admin.token, tenant.orgId],
      [people.organization.token, other.orgId],
      [people.organization.token, sibling],
      [selected.token, tenant.orgId],
      [people.system.token, newId()],
    ] as const) {
      expect((await read(token, orgId)).status).to.equal(404);
    }
    expect((await read(selected.token, sibling)).status).to.equal(200);
  });

  it('of a partner are handed out by the database to its own organizations only', async () => {
    await setPartner({ policy: 'staged' });
    const other = await buildTenant(app);
    const asMemberOf = (orgId: string) =>
      withTenant(
        app.server.database.pool,
        { scope: 'organization', userId: null, partnerId: null, orgAccess: 'listed', orgIds: [orgId] },
        async (tx) => tx.select(tx.raw('partner_agent_updates(?) as settings', [tenant.partnerId])).first(),
      );
    expect(await asMemberOf(tenant.orgId)).to.deep.equal({ settings: { policy: 'staged' } });
    expect(await asMemberOf(other.orgId)).to.deep.equal({ settings: null });
  });
});
