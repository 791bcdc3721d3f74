import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import {
  buildPerson,
  buildTenant,
  giveSecondFactor,
  PASSWORD,
  type Person,
} from '../../../../support/factories.ts';
import { sharedTestApp, type Answer, type TestApp } from '../../../../support/test-app.ts';
import { enableSecondFactor } from '../../../../support/auth/second-factor-support.ts';
import { type Owner, query } from '../../../../support/sso/sso-support.ts';
import { enforceFor } from '../../../../support/sso/enforcement/enforcement-support.ts';

/** Enforcement never ends with nobody who can get in: the last usable break-glass person stays usable. */
describe('the last break-glass person', () => {
  let app: TestApp;
  let partnerId: string;
  let orgId: string;
  before(async () => {
    app = await sharedTestApp();
  });
  beforeEach(async () => {
    ({ partnerId, orgId } = await buildTenant(app));
  });
  after(async () => app.close());

  const member = (role: string = SYSTEM_ROLES.organizationAdmin) =>
    buildPerson(app, { scope: 'organization', orgId, role });
  const colleague = () => buildPerson(app, { scope: 'partner', partnerId });
  const enforced = (named: readonly Person[], row: object = {}, owner: Owner = { org_id: orgId }) =>
    enforceFor(app, owner, named, row);
  const disable = (who: Person, by: Person) =>
    app.call('PATCH', `/users/${who.id}`, { token: by.token, body: { status: 'disabled' } });
  const remove = (who: Person, by: Person) => app.call('DELETE', `/users/${who.id}`, { token: by.token });
  const leave = (who: Person) => app.call('DELETE', '/users/me', { token: who.token });
  const demote = (who: Person, by: Person) =>
    app.call('POST', `/users/${who.id}/role`, {
      token: by.token,
      body: { roleId: SYSTEM_ROLES.organizationViewer },
    });
  const expectKept = ({ status, body }: Answer) => {
    expect([status, body.code]).to.deep.equal([409, 'CONFLICT']);
    expect(body.error).to.equal(
      'This is the last person who can sign in if Acme Login fails. Add another break-glass person to that identity provider first.',
    );
  };

  it('is not disabled, removed or demoted, and does not leave', async () => {
    const [named, other, partnerAdmin] = [await member(), await member(), await colleague()];
    await enforced([named]);
    expectKept(await disable(named, other));
    expectKept(await disable(named, partnerAdmin));
    expectKept(await remove(named, other));
    expectKept(await demote(named, other));
    expectKept(await leave(named));
    const signedIn = await app.call('POST', '/auth/login', {
      body: { email: named.email, password: PASSWORD },
    });
    expect(signedIn.status).to.equal(200);
  });

  it('is the last one only if no other named person is usable', async () => {
    const [named, other] = [await member(), await member()];
    const useless = [
      await member(SYSTEM_ROLES.organizationTechnician),
      await member(),
      await member(),
      await colleague(),
    ];
    await query(app, `update users set status = 'disabled' where id = ?`, [useless[1]!.id]);
    await query(app, 'update users set password_hash = null where id = ?', [useless[2]!.id]);
    const providerId = await enforced([named, ...useless]);
    expectKept(await disable(named, other));
    await query(
      app,
      'update sso_providers set break_glass_user_ids = break_glass_user_ids || ?::uuid where id = ?',
      [other.id, providerId],
    );
    expect((await disable(named, other)).status).to.equal(200);
  });

  it('is free to go if the provider is not enforced, or has not named them', async () => {
    const [first, second, third, by] = [await member(), await member(), await member(), await member()];
    await member();
    await enforced([first], { enforce_sso: false });
    await enforced([second], { status: 'inactive' });
    await enforced([by]);
    // An operator has made a mistake here, which is no reason to keep everybody.
    const mistaken = await enforced([await member(SYSTEM_ROLES.organizationViewer)]);
    for (const person of [first, second, third]) expect((await remove(person, by)).status).to.equal(200);
    await query(app, 'delete from sso_providers where id = ?', [mistaken]);
    expectKept(await leave(by));
  });

  it('of each provider counts by itself', async () => {
    const [first, second] = [await member(), await member()];
    await enforced([first]);
    await enforced([second]);
    expectKept(await disable(first, second));
    expectKept(await disable(second, first));
  });

  it('of a partner keeps the second factor', async () => {
    const [named, other] = [await colleague(), await colleague()];
    const factor = await enableSecondFactor(app, named);
    const providerId = await enforced([named, other], {}, { partner_id: partnerId });
    const body = { currentPassword: PASSWORD, code: factor.code() };
    expectKept(await app.call('POST', '/auth/mfa/disable', { token: named.token, body }));
    expect((await app.call('GET', '/users/me', { token: named.token })).body.mfaEnabled).to.equal(true);
    expectKept(await remove(named, other));
    await query(app, 'update sso_providers set enforce_sso = false where id = ?', [providerId]);
    expect((await app.call('POST', '/auth/mfa/disable', { token: named.token, body })).status).to.equal(200);
  });

  it('of an organization may do without one', async () => {
    const named = await member();
    const factor = await enableSecondFactor(app, named);
    await enforced([named]);
    const body = { currentPassword: PASSWORD, code: factor.code() };
    expect((await app.call('POST', '/auth/mfa/disable', { token: named.token, body })).status).to.equal(200);
  });

  it('remains if enforcement begins at the moment in which they are disabled', async () => {
    for (let round = 0; round < 5; round++) {
      const [named, by] = [await member(), await colleague()];
      await giveSecondFactor(app, by);
      const providerId = await enforced([named], { enforce_sso: false, last_success_at: new Date() });
      const enforce = app.call('PATCH', `/sso/providers/${providerId}`, {
        token: by.token,
        body: { enforceSSO: true },
      });
      const answers = await Promise.all([enforce, disable(named, by)]);
      const statuses = answers.map(({ status }) => status);
      expect([
        [200, 409],
        [400, 200],
      ]).to.deep.include(statuses);
      await query(app, 'delete from sso_providers where id = ?', [providerId]);
    }
  });

  it('remains if two disable each other at the same moment', async () => {
    for (let round = 0; round < 5; round++) {
      const [first, second, by] = [await member(), await member(), await colleague()];
      const providerId = await enforced([first, second]);
      const answers = await Promise.all([disable(first, by), disable(second, by)]);
      expect(answers.map(({ status }) => status).sort((a, b) => a - b)).to.deep.equal([200, 409]);
      await query(app, 'delete from sso_providers where id = ?', [providerId]);
    }
  });
});
