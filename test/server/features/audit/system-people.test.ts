import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildPerson, PASSWORD, signIn } from '../../../support/factories.ts';
import { tokenIn } from '../../../support/mailbox.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('the audit trail of people of the system', () => {
  let app: TestApp;
  before(async () => {
    app = await createTestApp();
  });
  after(async () => app.close());

  it('has their sign-ins, and that they invited another one, for other System Admins to read', async () => {
    const root = await buildPerson(app, { scope: 'system' });
    await signIn(app, root.email);
    const refused = { email: root.email, password: 'Not-The-Word-1' };
    await app.call('POST', '/auth/login', { body: refused });
    const email = 'second-root@example.com';
    const invited = await app.call('POST', '/users/invite', {
      token: root.token,
      body: { name: 'Second', email, roleId: SYSTEM_ROLES.systemAdmin },
    });
    expect(invited.status).to.equal(201);
    const second = await app.call('POST', '/auth/accept-invite', {
      body: { token: tokenIn(invited.body.inviteUrl), password: PASSWORD },
    });
    const token = second.body.tokens.accessToken;
    const seen = await eventually(
      async () => {
        await app.server.chainWriter.flush();
        const { data } = (await app.call('GET', '/audit-logs/logs', { token })).body;
        return data.map((entry: { action: string; user: { email: string } }) => [
          entry.action,
          entry.user.email,
        ]);
      },
      (entries: unknown[]) => entries.length >= 4,
    );
    expect(seen).to.have.deep.members([
      ['user.login', root.email],
      ['user.login.failed', root.email],
      ['user.invite', root.email],
      ['user.login', email],
    ]);
  });
});
