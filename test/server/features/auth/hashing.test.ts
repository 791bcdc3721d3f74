import { expect } from 'chai';
import { Secret, TOTP } from 'otpauth';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { inTurn } from '../../../../src/platform/secrets/passwords.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { buildPerson, buildTenant, PASSWORD, type Person } from '../../../support/factories.ts';
import { createMailbox, tokenIn, type Mailbox } from '../../../support/mailbox.ts';
import { createTestApp, type Answer, type TestApp } from '../../../support/test-app.ts';

const NEW_PASSWORD = 'Another-Horse-10';

/** More than may hash at once. */
const PLACES = 10;

/** Stands in line before the hashes of the requests under test, until it is released. */
function standInLine(): { release: () => void } {
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  for (let n = 0; n < PLACES; n++) void inTurn(() => released);
  return { release };
}

describe('hashing', () => {
  let app: TestApp;
  let mailbox: Mailbox;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    mailbox = await createMailbox();
    app = await createTestApp({ env: { DATABASE_POOL_SIZE: '1', DATA_DIR: mailbox.dataDir } });
    tenant = await buildTenant(app);
  });
  after(async () => {
    await app.close();
    await mailbox.remove();
  });

  const post = (path: string, body: object, token?: string) => app.call('POST', path, { body, token });
  const newPerson = () => buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
  const code = (secret: string) => TOTP.generate({ secret: Secret.fromBase32(secret) });

  async function withSecondFactor(): Promise<{ person: Person; recoveryCodes: string[] }> {
    const person = await newPerson();
    const { body } = await post('/auth/mfa/setup', { currentPassword: PASSWORD }, person.token);
    expect((await post('/auth/mfa/enable', { code: code(body.secret) }, person.token)).status).to.equal(200);
    return { person, recoveryCodes: body.recoveryCodes };
  }
  async function invited(): Promise<string> {
    const body = { email: 'guest@example.com', name: 'Guest', roleId: SYSTEM_ROLES.partnerViewer };
    const answer = await post('/users/invite', body, tenant.admin.token);
    return tokenIn(answer.body.inviteUrl);
  }
  async function forgotten(): Promise<string> {
    const { email } = await newPerson();
    await post('/auth/forgot-password', { email });
    return tokenIn(await mailbox.newest(email));
  }

  it('holds no connection: with one of them, others are served while all that hash wait their turn', async () => {
    const [signsIn, changes, setsUp] = [await newPerson(), await newPerson(), await newPerson()];
    const [disables, renews, meets] = [
      await withSecondFactor(),
      await withSecondFactor(),
      await withSecondFactor(),
    ];
    const [invitation, reset] = [await invited(), await forgotten()];
    const { body: challenge } = await post('/auth/login', { email: meets.person.email, password: PASSWORD });
    const confirmation = ({ recoveryCodes }: { recoveryCodes: string[] }) => ({
      currentPassword: PASSWORD,
      code: recoveryCodes[0],
    });
    const account = { name: 'Ann', password: PASSWORD, acceptTerms: true };

    const line = standInLine();
    let answered = 0;
    const counted = async (request: Promise<Answer>) => {
      const answer = await request;
      answered++;
      return answer.status;
    };
    const requests = [
      post('/auth/login', { email: signsIn.email, password: PASSWORD }),
      post('/auth/mfa/verify', { tempToken: challenge.tempToken, code: meets.recoveryCodes[0] }),
      post('/auth/change-password', { currentPassword: PASSWORD, newPassword: NEW_PASSWORD }, changes.token),
      post('/auth/mfa/setup', { currentPassword: PASSWORD }, setsUp.token),
      post('/auth/mfa/disable', confirmation(disables), disables.person.token),
      post('/auth/mfa/recovery-codes', confirmation(renews), renews.person.token),
      post('/auth/reset-password', { token: reset, password: NEW_PASSWORD }),
      post('/auth/accept-invite', { token: invitation, password: NEW_PASSWORD }),
      post('/auth/register', { ...account, email: 'ann@example.com' }),
      post('/auth/register-partner', { ...account, email: 'bob@example.com', companyName: 'Acme' }),
    ].map(counted);

    for (let n = 0; n < 10; n++) {
      expect((await app.call('GET', '/auth/me', { token: tenant.admin.token })).status).to.equal(200);
    }
    // Else it was not shown that anyone was waiting.
    expect(answered).to.equal(0);
    line.release();
    expect(await Promise.all(requests)).to.deep.equal([200, 200, 200, 200, 200, 200, 200, 200, 201, 201]);
  });

  describe('that ends after something has changed', () => {
    /** The request reads, waits in line for its hash, and finds what `change` has done meanwhile. */
    async function overtaken(request: () => Promise<Answer>, change: () => Promise<unknown>) {
      const line = standInLine();
      const answer = request();
      // With one connection, this one comes after what the request reads.
      for (let n = 0; n < 3; n++) await app.call('GET', '/auth/me', { token: tenant.admin.token });
      await change();
      line.release();
      return (await answer).status;
    }
    const sql = (text: string, values: string[]) =>
      withSystem(app.server.database.pool, 'test', (tx) => tx.raw(text, values));

    it('sets nothing up for a password that is not the same, or a person who is out', async () => {
      for (const change of [`password_hash = 'another'`, `status = 'disabled'`]) {
        const person = await newPerson();
        const status = await overtaken(
          () => post('/auth/mfa/setup', { currentPassword: PASSWORD }, person.token),
          () => sql(`update users set ${change} where id = ?`, [person.id]),
        );
        expect(status, change).to.equal(409);
        const { rows } = await sql('select 1 from user_mfa where user_id = ?', [person.id]);
        expect(rows, change).to.deep.equal([]);
      }
    });

    it('spends no code of a factor that was replaced, or disabled', async () => {
      for (const path of ['/auth/mfa/disable', '/auth/mfa/recovery-codes']) {
        const { person, recoveryCodes } = await withSecondFactor();
        const body = { currentPassword: PASSWORD, code: recoveryCodes[0] };
        const status = await overtaken(
          () => post(path, body, person.token),
          () =>
            sql(`update user_mfa set recovery_salt = '00000000000000000000000000000000' where user_id = ?`, [
              person.id,
            ]),
        );
        expect(status, path).to.equal(401);
      }
      const { person, recoveryCodes } = await withSecondFactor();
      const { body } = await post('/auth/login', { email: person.email, password: PASSWORD });
      const status = await overtaken(
        () => post('/auth/mfa/verify', { tempToken: body.tempToken, code: recoveryCodes[0] }),
        () => sql('delete from user_mfa where user_id = ?', [person.id]),
      );
      expect(status).to.equal(401);
    });
  });
});
