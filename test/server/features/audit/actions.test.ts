import { expect } from 'chai';
import { TOTP } from 'otpauth';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildPartner,
  buildPerson,
  buildSite,
  buildTenant,
  PASSWORD,
  signIn,
  type Person,
} from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { entriesOf } from './reading-support.ts';

describe('what is in the audit trail', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let system: Person;
  before(async () => {
    app = await createTestApp({
      env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1/32' },
    });
    tenant = await buildTenant(app);
    system = await buildPerson(app, { scope: 'system' });
  });
  after(() => app.close());

  /** The entries of an action that are of this actor or about this resource. */
  const about = async (action: string, id: string) =>
    (await entriesOf(app, action)).filter((row) => row['actor_id'] === id || row['resource_id'] === id);
  /** The only one; written after the answer, some come a moment later. */
  const one = async (action: string, id: string) => {
    const found = await eventually(
      () => about(action, id),
      ({ length }) => length > 0,
    );
    expect(found, action).to.have.length(1);
    return found[0]!;
  };
  const call = (method: string, path: string, body?: unknown, token = tenant.admin.token) =>
    app.call(method, path, { token, ...(body === undefined ? {} : { body }) });
  const login = (email: string, password = PASSWORD, ip = '203.0.113.1') =>
    app.call('POST', '/auth/login', {
      body: { email, password },
      headers: { 'x-forwarded-for': ip, 'user-agent': 'Browser/1' },
    });

  describe('of sign-ins', () => {
    it('is a sign-in, with the person and the address', async () => {
      const person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      await signIn(app, person.email);
      await signIn(app, tenant.admin.email);
      const row = await one('user.login', person.id);
      expect(row).to.include({
        org_id: tenant.orgId,
        actor_type: 'user',
        actor_email: person.email,
        resource_type: 'user',
        result: 'success',
      });
      expect(row['details']).to.have.all.keys('sessionId', 'mfa');
      const ofPartner = await one('user.login', tenant.admin.id);
      expect(ofPartner).to.include({ org_id: null, partner_id: tenant.partnerId });
    });

    it('is a wrong password of a person who is known', async () => {
      const person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const { status, body } = await login(person.email.toUpperCase(), 'Wrong-Password-1', '203.0.113.2');
      expect(status).to.equal(401);
      const row = await one('user.login.failed', person.id);
      expect(row).to.include({
        org_id: tenant.orgId,
        actor_email: person.email,
        result: 'failure',
        error_message: body.error,
        ip_address: '203.0.113.2',
        user_agent: 'Browser/1',
      });
      expect(row['details']).to.deep.equal({ reason: 'password' });
    });

    it('is nothing for an address without an account', async () => {
      const before = (await entriesOf(app, 'user.login.failed')).length;
      const waiting = async () =>
        (
          await withSystem(app.server.database.pool, 'test', (tx) =>
            tx.raw('select count(*)::int as n from audit_outbox'),
          )
        ).rows[0].n;
      expect((await login(`nobody-${newId()}@example.com`)).status).to.equal(401);
      await app.settle();
      expect(await waiting()).to.equal(0);
      expect(await entriesOf(app, 'user.login.failed')).to.have.length(before);
    });

    it('is a right password that is refused: of a disabled person, of an inactive partner, from a network that is not allowed', async () => {
      const disabled = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      await call('PATCH', `/users/${disabled.id}`, { status: 'disabled' });
      expect((await login(disabled.email)).status).to.equal(401);
      expect((await one('user.login.failed', disabled.id))['details']).to.deep.equal({ reason: 'password' });

      const shut = await buildPartner(app);
      const ofShut = await buildPerson(app, { scope: 'partner', partnerId: shut });
      await call('PATCH', `/orgs/partners/${shut}`, { status: 'suspended' }, system.token);
      expect((await login(ofShut.email)).status).to.equal(403);
      const refused = await one('user.login.failed', ofShut.id);
      expect(refused).to.include({ partner_id: shut, result: 'failure' });
      expect(refused['details']).to.deep.equal({ reason: 'partner_inactive' });

      const walled = await buildPartner(app, {
        settings: JSON.stringify({ security: { ipAllowlist: ['127.0.0.1/32', '198.51.100.0/24'] } }),
      });
      const ofWalled = await buildPerson(app, { scope: 'partner', partnerId: walled });
      expect((await login(ofWalled.email, PASSWORD, '203.0.113.3')).status).to.equal(401);
      expect((await one('user.login.failed', ofWalled.id))['details']).to.deep.equal({ reason: 'address' });
    });

    it('is the second factor: only with it one has come', async () => {
      const person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const setup = await call('POST', '/auth/mfa/setup', { currentPassword: PASSWORD }, person.token);
      const totp = new TOTP({ secret: setup.body.secret });
      expect(
        (await call('POST', '/auth/mfa/enable', { code: totp.generate() }, person.token)).status,
      ).to.equal(200);
      const { tempToken } = (await login(person.email)).body;
      const wrong = await app.call('POST', '/auth/mfa/verify', { body: { tempToken, code: 'AAAAA-AAAAA' } });
      expect(wrong.status).to.equal(401);
      const failed = await one('user.login.failed', person.id);
      expect(failed['details']).to.deep.equal({ reason: 'second_factor' });
      const code = setup.body.recoveryCodes[0];
      expect((await app.call('POST', '/auth/mfa/verify', { body: { tempToken, code } })).status).to.equal(
        200,
      );
      const logins = await about('user.login', person.id);
      expect(logins.map(({ details }) => (details as { mfa: boolean }).mfa)).to.deep.equal([true]);
    });

    it('is signing out, once', async () => {
      const person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const token = await signIn(app, person.email);
      await call('POST', '/auth/logout', undefined, token);
      await call('POST', '/auth/logout', undefined, token);
      const row = await one('user.logout', person.id);
      expect(row).to.include({ org_id: tenant.orgId, result: 'success' });
      const { sessionId } = (await one('user.login', person.id))['details'] as { sessionId: string };
      expect(row['details']).to.deep.equal({ sessionId });
    });

    it('is a new password, and the end of other sessions', async () => {
      const person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const changed = await call(
        'POST',
        '/auth/change-password',
        { currentPassword: PASSWORD, newPassword: `${PASSWORD}-new` },
        person.token,
      );
      expect(changed.status).to.equal(200);
      const row = await one('user.password.change', person.id);
      expect(row['org_id']).to.equal(tenant.orgId);
      expect(row['details']).to.deep.equal({ provedBy: 'password' });
      await call('DELETE', '/auth/sessions', undefined, person.token);
      expect((await one('user.session.end', person.id))['details']).to.deep.equal({ ended: 0 });
    });
  });

  it('is another role, as before and after', async () => {
    const person = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
    const given = await call('POST', `/users/${person.id}/role`, {
      roleId: SYSTEM_ROLES.partnerViewer,
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
    expect(given.status).to.equal(200);
    const row = await one('user.permission.change', person.id);
    const { before, after } = row['details'] as Record<string, Record<string, unknown>>;
    expect(before).to.include({ roleName: 'Partner Admin', orgAccess: 'all' });
    expect(after).to.deep.include({
      roleName: 'Partner Viewer',
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
  });

  describe('of refusals', () => {
    it('is an action that was not permitted', async () => {
      const { status, body } = await call(
        'POST',
        '/orgs/sites',
        { orgId: tenant.orgId, name: 'No' },
        tenant.technician.token,
      );
      expect(status).to.equal(403);
      expect(await one('site.create', tenant.technician.id)).to.deep.include({
        org_id: tenant.orgId,
        actor_email: tenant.technician.email,
        result: 'denied',
        error_message: body.error,
        details: { code: 'FORBIDDEN' },
      });
    });

    it('is what was refused half-way, in the trail of the actor, not of the owner', async () => {
      const other = await buildTenant(app);
      const { status, body } = await call('PATCH', `/orgs/sites/${other.siteId}`, { name: 'Mine' });
      expect([status, body.error]).to.deep.equal([403, 'Access to this site denied']);
      expect(await one('site.update', other.siteId)).to.include({
        org_id: null,
        partner_id: tenant.partnerId,
        result: 'denied',
        error_message: 'Access to this site denied',
      });
    });

    it('is nothing of what was not found, was wrong, or is only read', async () => {
      const count = async () =>
        (
          await withSystem(app.server.database.pool, 'test', (tx) =>
            tx.raw(`select count(*)::int as n from audit_logs where result = 'denied'`),
          )
        ).rows[0].n;
      await app.server.chainWriter.flush();
      const before = await count();
      await call('PATCH', `/orgs/sites/${newId()}`, { name: 'x' });
      await call('POST', '/orgs/sites', {});
      await call('GET', '/audit-logs', undefined, tenant.technician.token);
      await app.server.chainWriter.flush();
      expect(await count()).to.equal(before);
    });

    it('is an export that was refused', async () => {
      await call('POST', '/audit-logs/export', {}, tenant.technician.token);
      expect(await one('audit_logs.export', tenant.technician.id)).to.include({ result: 'denied' });
    });
  });

  describe('of agents', () => {
    const beat = ({ deviceId, token }: { deviceId: string; token: string }, ip: string) =>
      app.call('POST', `/agents/${deviceId}/heartbeat`, {
        token,
        body: { at: new Date().toISOString(), agentVersion: '1.0.0' },
        headers: { 'x-forwarded-for': ip },
      });
    const storedIp = async (id: string) => (await call('GET', `/devices/${id}`)).body.lastIp as string | null;

    it('is another address than before, once a change, and not the first', async () => {
      const device = await buildDevice(app, tenant.orgId, { hostname: 'MOVER' });
      for (const ip of ['198.51.100.1', '198.51.100.1', '198.51.100.2', '198.51.100.2']) {
        expect((await beat(device, ip)).status).to.equal(200);
        await eventually(
          () => storedIp(device.deviceId),
          (stored) => stored === ip,
        );
      }
      const row = await one('agent.source.ip.changed', device.deviceId);
      expect(row).to.deep.include({
        org_id: tenant.orgId,
        actor_type: 'agent',
        actor_id: device.deviceId,
        resource_type: 'device',
        resource_id: device.deviceId,
        resource_name: 'MOVER',
        ip_address: '198.51.100.2',
        details: { before: '198.51.100.1', after: '198.51.100.2' },
      });
    });

    it('is the origin of a device: its enrollment, and each one after', async () => {
      const machineId = newId();
      const device = await buildDevice(app, tenant.orgId, { hostname: 'NEW', machineId });
      await buildDevice(app, tenant.orgId, { hostname: 'NEW', machineId });
      expect(await one('device.create', device.deviceId)).to.include({
        org_id: tenant.orgId,
        actor_type: 'agent',
        resource_name: 'NEW',
      });
      expect((await one('device.update', device.deviceId))['details']).to.include({ enrolledAgain: true });
      await call('DELETE', `/devices/${device.deviceId}`);
      expect(await one('device.delete', device.deviceId)).to.include({ resource_name: 'NEW' });
    });
  });

  describe('of partners, organizations and sites', () => {
    it('is what of them was changed', async () => {
      const { token } = system;
      const slug = `audited-${newId()}`;
      const partner = (await call('POST', '/orgs/partners', { name: 'P', slug }, token)).body;
      expect(await one('partner.create', partner.id)).to.include({ partner_id: partner.id });
      await call('PATCH', `/orgs/partners/${partner.id}`, { name: 'Q', maxDevices: 5 }, token);
      expect((await one('partner.update', partner.id))['details']).to.deep.equal({
        changedFields: ['name', 'maxDevices'],
        before: { name: 'P', maxDevices: null },
        after: { name: 'Q', maxDevices: 5 },
      });
      await call('DELETE', `/orgs/partners/${partner.id}`, undefined, token);
      expect(await one('partner.delete', partner.id)).to.include({ resource_name: 'Q' });

      const settings = await call('PATCH', '/orgs/partners/me', { settings: { timezone: 'Europe/Lisbon' } });
      expect(settings.status, JSON.stringify(settings.body)).to.equal(200);
      expect((await one('partner.settings.update', tenant.partnerId))['details']).to.deep.equal({
        changedFields: ['settings.timezone'],
        before: { settings: {} },
        after: { settings: { timezone: 'Europe/Lisbon' } },
      });

      const made = await call('POST', '/orgs/organizations', { name: 'O', slug: `o-${newId()}` });
      const { id, status, type } = made.body;
      expect((await one('organization.create', id))['details']).to.deep.equal({
        partnerId: tenant.partnerId,
        status,
        type,
      });
      await call('PATCH', `/orgs/organizations/${id}`, { name: 'O2' });
      expect((await one('organization.update', id))['details']).to.deep.equal({
        changedFields: ['name'],
        before: { name: 'O' },
        after: { name: 'O2' },
      });
      await call('DELETE', `/orgs/organizations/${id}`);
      expect(await one('organization.delete', id)).to.include({ org_id: id, resource_name: 'O2' });
    });

    it('is a site, made, changed and deleted', async () => {
      const site = (await call('POST', '/orgs/sites', { orgId: tenant.orgId, name: 'S' })).body;
      await call('PATCH', `/orgs/sites/${site.id}`, { name: 'T', timezone: 'UTC' });
      await buildSite(app, tenant.orgId);
      await call('DELETE', `/orgs/sites/${site.id}`);
      expect(await one('site.create', site.id)).to.include({ org_id: tenant.orgId, resource_name: 'S' });
      expect((await one('site.update', site.id))['details']).to.have.property('changedFields');
      expect(await one('site.delete', site.id)).to.include({ resource_name: 'T' });
    });

    it('is the order of organizations', async () => {
      const other = await buildTenant(app);
      await buildOrganization(app, other.partnerId);
      const body = { organizationOrder: [other.orgId] };
      expect((await call('PATCH', '/orgs/organizations/order', body, other.admin.token)).status).to.equal(
        200,
      );
      expect((await one('partner.settings.update', other.partnerId))['details']).to.deep.equal({
        changedFields: ['settings.organizationOrder'],
        before: { organizationOrder: null },
        after: {
          organizationOrder: (await call('GET', '/orgs/partners/me', undefined, other.admin.token)).body
            .settings.organizationOrder,
        },
      });
    });

    it('is a partner that has registered itself', async () => {
      const email = `founder-${newId()}@example.com`;
      const { body } = await app.call('POST', '/auth/register-partner', {
        body: { companyName: 'Founders', name: 'F', email, password: PASSWORD, acceptTerms: true },
      });
      expect(await one('partner.create', body.partner.id)).to.deep.include({
        actor_email: email,
        details: { registered: true },
      });
    });
  });
});
