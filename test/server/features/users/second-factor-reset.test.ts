import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { passkeysOf } from '../../../support/auth/passkey-support.ts';
import { enableSecondFactor } from '../../../support/auth/second-factor-support.ts';
import {
  buildPerson,
  buildTenant,
  giveSecondFactor,
  PASSWORD,
  type Person,
} from '../../../support/factories.ts';
import { createMailbox, type Mailbox } from '../../../support/mailbox.ts';
import { enforceFor } from '../../../support/sso/enforcement/enforcement-support.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('the second factors of a person who has lost them', () => {
  let mailbox: Mailbox;
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    mailbox = await createMailbox();
    app = await createTestApp({ env: { DATA_DIR: mailbox.dataDir } });
  });
  beforeEach(async () => {
    tenant = await buildTenant(app);
    await giveSecondFactor(app, tenant.admin);
  });
  after(async () => {
    await app.close();
    await mailbox.remove();
  });

  const member = (role: string = SYSTEM_ROLES.organizationAdmin) =>
    buildPerson(app, { scope: 'organization', orgId: tenant.orgId, role });
  const reset = (who: Pick<Person, 'id'>, { token }: Pick<Person, 'token'> = tenant.admin) =>
    app.call('POST', `/users/${who.id}/mfa/reset`, { token });
  const login = async ({ email }: Person) =>
    (await app.call('POST', '/auth/login', { body: { email, password: PASSWORD } })).body;
  const sql = (text: string, values: string[]) =>
    withSystem(app.server.database.pool, 'test', async (tx) => (await tx.raw(text, values)).rows);
  const refusal = async (...asked: Parameters<typeof reset>) => {
    const { status, body } = await reset(...asked);
    return [status, body.code];
  };

  it('are removed by an administrator, with the sessions, and the person is told by mail', async () => {
    const person = await member();
    await enableSecondFactor(app, person);
    const { authenticator } = await passkeysOf(app).register(person, { body: {} });
    const { tempToken } = await login(person);
    const { status, body } = await reset(person);
    expect([status, body.id, body.mfaEnabled]).to.deep.equal([200, person.id, false]);

    expect((await app.call('GET', '/auth/me', { token: person.token })).status).to.equal(401);
    expect((await passkeysOf(app).signIn(authenticator)).status).to.equal(401);
    const late = await app.call('POST', '/auth/mfa/verify', { body: { tempToken, code: '000000' } });
    expect(late.status).to.equal(401);
    const left = await sql(
      `select (select count(*)::int from user_mfa where user_id = u.id) as apps,
        (select count(*)::int from mfa_recovery_codes where user_id = u.id) as codes,
        (select count(*)::int from passkeys where user_id = u.id) as passkeys,
        (select count(*)::int from mfa_challenges where user_id = u.id) as begun
      from users u where id = ?`,
      [person.id],
    );
    expect(left).to.deep.equal([{ apps: 0, codes: 0, passkeys: 0, begun: 0 }]);
    expect(await login(person)).to.include({ mfaRequired: false });
    expect(await mailbox.newest(person.email)).to.include('second factors of your Muster account');

    await app.server.chainWriter.flush();
    const trail = await sql(`select action, result from audit_logs where resource_id = ? and action = ?`, [
      person.id,
      'user.mfa_reset',
    ]);
    expect(trail).to.deep.equal([{ action: 'user.mfa_reset', result: 'success' }]);
  });

  it('leave the factors of others alone', async () => {
    const [person, other] = [await member(), await member()];
    await enableSecondFactor(app, person);
    await enableSecondFactor(app, other);
    expect((await reset(person)).status).to.equal(200);
    expect(await login(other)).to.include({ mfaRequired: true });
  });

  it('are removed by people only who have given a second factor of their own a short time ago', async () => {
    const person = await giveSecondFactor(app, await member());
    const without = await member();
    expect(await refusal(person, without)).to.deep.equal([403, 'MFA_REQUIRED']);
    await sql(
      `update sessions set mfa_at = now() - interval '16 minutes', created_at = now() - interval '1 day'
      where user_id = ? returning id`,
      [tenant.admin.id],
    );
    expect(await refusal(person)).to.deep.equal([403, 'MFA_REQUIRED']);
    expect(await login(person)).to.include({ mfaRequired: true });
  });

  it('are not removed by strangers, by members with fewer rights, or for oneself', async () => {
    const person = await giveSecondFactor(app, await member());
    const stranger = await giveSecondFactor(app, (await buildTenant(app)).admin);
    expect(await refusal(person, stranger)).to.deep.equal([404, 'NOT_FOUND']);
    const neighbour = await giveSecondFactor(app, await member());
    expect(await refusal(tenant.admin, neighbour)).to.deep.equal([404, 'NOT_FOUND']);
    const technician = await giveSecondFactor(app, await member(SYSTEM_ROLES.organizationTechnician));
    expect(await refusal(person, technician)).to.deep.equal([403, 'FORBIDDEN']);
    const { body: role } = await app.call('POST', '/roles', {
      token: tenant.admin.token,
      body: { name: 'People only', scope: 'partner', permissions: ['users:read', 'users:write'] },
    });
    const lesser = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId, role: role.id });
    expect(await refusal(person, await giveSecondFactor(app, lesser))).to.deep.equal([403, 'FORBIDDEN']);
    expect(await refusal(tenant.admin)).to.deep.equal([403, 'FORBIDDEN']);
    expect(await refusal({ id: newId() })).to.deep.equal([404, 'NOT_FOUND']);
    expect(await login(person)).to.include({ mfaRequired: true });
  });

  it('are not removed where there are none', async () => {
    expect(await refusal(await member())).to.deep.equal([409, 'CONFLICT']);
  });

  it('are removed of a system administrator by another one', async () => {
    const [lost, helper] = [
      await buildPerson(app, { scope: 'system' }),
      await buildPerson(app, { scope: 'system' }),
    ];
    await enableSecondFactor(app, lost);
    expect((await reset(lost, await giveSecondFactor(app, helper))).status).to.equal(200);
    expect(await login(lost)).to.include({ mfaRequired: false });
  });

  it('stay with the last person who can sign in if an enforced identity provider fails', async () => {
    const named = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
    await enableSecondFactor(app, named);
    await enforceFor(app, { partner_id: tenant.partnerId }, [named]);
    expect(await refusal(named)).to.deep.equal([409, 'CONFLICT']);
    expect(await login(named)).to.include({ mfaRequired: true });
  });
});
