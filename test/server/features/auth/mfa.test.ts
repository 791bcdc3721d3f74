import { expect } from 'chai';
import { tmpdir } from 'node:os';
import { Secret, TOTP } from 'otpauth';
import { rotateSecrets } from '../../../../src/cli/reseal-secrets.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { createEncryptor, sealContext } from '../../../../src/platform/secrets/sealed.ts';
import { buildPerson, buildTenant, PASSWORD, type Person, signIn } from '../../../support/factories.ts';
import { environmentOf, startCommand } from '../../../support/run-muster.ts';
import { testClock } from '../../../support/test-clock.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

const FIRST_KEY = 'the first key of thirty-two characters at least';
const SECOND_KEY = 'the second key of thirty-two characters as well';

describe('the second factor', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  before(async () => {
    app = await createTestApp({ env: { SECRET_ENCRYPTION_KEY: FIRST_KEY } });
    tenant = await buildTenant(app);
  });
  after(async () => app.close());

  const post = (path: string, body: object, token?: string) => app.call('POST', path, { body, token });
  const sql = async (text: string, values: string[] = []) =>
    (await withSystem(app.server.database.pool, 'test', (tx) => tx.raw(text, values))).rows;
  const code = (secret: string, steps = 0) =>
    TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: testClock.now() + steps * 30_000 });
  const login = async (person: Person) =>
    (await post('/auth/login', { email: person.email, password: PASSWORD })).body;
  const verify = (tempToken: string, given: string) => post('/auth/mfa/verify', { tempToken, code: given });
  /** As if the last code had been used long ago. */
  const later = (person: Person) =>
    sql('update user_mfa set last_step = 0, tries = 0 where user_id = ?', [person.id]);
  const newPerson = () => buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });

  const rotated = (env: Record<string, string>) =>
    startCommand(rotateSecrets, { env: { ...environmentOf(app.database, tmpdir()), ...env } }).ended;

  async function enabled() {
    const person = await newPerson();
    const setup = await post('/auth/mfa/setup', { currentPassword: PASSWORD }, person.token);
    expect(setup.status).to.equal(200);
    const { secret, recoveryCodes } = setup.body as { secret: string; recoveryCodes: string[] };
    const answer = await post('/auth/mfa/enable', { code: code(secret) }, person.token);
    expect([answer.status, answer.body]).to.deep.equal([200, { success: true }]);
    await later(person);
    return { person, secret, recoveryCodes };
  }

  it('is set up with a password, and asked for only once a first code has shown that the app works', async () => {
    const person = await newPerson();
    expect((await post('/auth/mfa/setup', { currentPassword: 'wrong' }, person.token)).status).to.equal(401);
    const { body } = await post('/auth/mfa/setup', { currentPassword: PASSWORD }, person.token);
    expect(body).to.have.all.keys('secret', 'otpAuthUrl', 'recoveryCodes');
    expect(body.recoveryCodes).to.have.lengthOf(10);
    for (const one of body.recoveryCodes) expect(one).to.match(/^[2-9A-Z]{4}-[2-9A-Z]{4}$/);
    expect(new URL(body.otpAuthUrl).searchParams.get('secret')).to.equal(body.secret);
    expect(await login(person)).to.include({ mfaRequired: false });

    for (const wrong of ['000000', 'abc', body.recoveryCodes[0], code(body.secret, -5)]) {
      expect((await post('/auth/mfa/enable', { code: wrong }, person.token)).status, wrong).to.equal(401);
    }
    expect((await post('/auth/mfa/enable', { code: code(body.secret) }, person.token)).status).to.equal(200);
    const again = await post('/auth/mfa/setup', { currentPassword: PASSWORD }, person.token);
    expect([again.status, again.body.code]).to.deep.equal([409, 'CONFLICT']);
  });

  it('is kept sealed, and its recovery codes hashed', async () => {
    const { person, secret, recoveryCodes } = await enabled();
    const rows = JSON.stringify([
      await sql('select * from user_mfa where user_id = ?', [person.id]),
      await sql('select * from mfa_recovery_codes where user_id = ?', [person.id]),
    ]);
    expect(rows).to.contain('"v1.').and.not.contain(secret);
    for (const one of recoveryCodes) expect(rows).not.to.contain(one);
    expect(JSON.stringify(app.log)).not.to.contain(secret);
  });

  it('stands between the password and the session', async () => {
    const { person, secret } = await enabled();
    const answer = await post('/auth/login', { email: person.email, password: PASSWORD });
    expect(answer.status).to.equal(200);
    expect(answer.headers.getSetCookie()).to.deep.equal([]);
    const { tempToken, ...rest } = answer.body;
    expect(rest).to.deep.equal({
      mfaRequired: true,
      methods: ['app', 'recovery_code'],
      user: null,
      tokens: null,
    });
    expect((await app.call('GET', '/auth/me', { token: tempToken })).status).to.equal(401);

    const met = await verify(tempToken, code(secret));
    expect(met.status).to.equal(200);
    expect(met.body.user).to.deep.include({ id: person.id, mfaEnabled: true });
    expect(met.headers.getSetCookie()[0]).to.match(/^svc_refresh=/);
    const { accessToken } = met.body.tokens;
    expect((await app.call('GET', '/auth/me', { token: accessToken })).status).to.equal(200);
    const [, claims = ''] = accessToken.split('.');
    expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).to.include({ mfa: true });
    expect(
      await sql('select mfa from sessions where user_id = ? order by created_at desc limit 1', [person.id]),
    ).to.deep.equal([{ mfa: true }]);
    const again = await verify(tempToken, code(secret, 1));
    expect([again.status, again.body.code]).to.deep.equal([401, 'UNAUTHENTICATED']);
  });

  it('takes the codes of the step before and the one after, each once, and no older one than the last', async () => {
    const { person, secret } = await enabled();
    // From the beginning of a step: at its end all codes age by one.
    testClock.jump(30_000 - (testClock.now() % 30_000));
    const attempt = async (given: string) => (await verify((await login(person)).tempToken, given)).status;
    expect(await attempt(code(secret, -2))).to.equal(401);
    expect(await attempt(code(secret, 2))).to.equal(401);
    expect(await attempt(code(secret, -1))).to.equal(200);
    expect(await attempt(code(secret, -1))).to.equal(401);
    expect(await attempt(code(secret, 1))).to.equal(200);
    expect(await attempt(code(secret, 0))).to.equal(401);
  });

  const SAME: [title: string, given: (of: { secret: string; recoveryCodes: string[] }) => string][] = [
    ['code', ({ secret }) => code(secret)],
    ['recovery code', ({ recoveryCodes }) => recoveryCodes[0]!],
  ];
  for (const [title, given] of SAME) {
    it(`lets one in when many come at once with the same ${title}`, async () => {
      const { person, ...factor } = await enabled();
      const tokens = await Promise.all(
        Array.from({ length: 8 }, async () => (await login(person)).tempToken),
      );
      const answers = await Promise.all(tokens.map((tempToken) => verify(tempToken, given(factor))));
      expect(answers.filter(({ status }) => status === 200)).to.have.lengthOf(1);
      expect(answers.filter(({ status }) => status === 401)).to.have.lengthOf(7);
    });
  }

  it('lets one in when the codes of one sign-in come at once', async () => {
    const { person, secret } = await enabled();
    await later(person);
    const { tempToken } = await login(person);
    const same = await Promise.all([0, 1, -1].map((step) => verify(tempToken, code(secret, step))));
    expect(same.filter(({ status }) => status === 200)).to.have.lengthOf(1);
  });

  it('takes a recovery code once, however it is typed', async () => {
    const { person, recoveryCodes } = await enabled();
    const typed = recoveryCodes[3]!.toLowerCase().replace('-', ' ');
    expect((await verify((await login(person)).tempToken, typed)).status).to.equal(200);
    expect((await verify((await login(person)).tempToken, recoveryCodes[3]!)).status).to.equal(401);
    expect((await verify((await login(person)).tempToken, recoveryCodes[4]!)).status).to.equal(200);
  });

  it('gives five tries and five minutes, and says the same whatever was wrong', async () => {
    const { person, secret } = await enabled();
    const { tempToken } = await login(person);
    const answers = [];
    for (let i = 0; i < 5; i++) answers.push(await verify(tempToken, '000000'));
    answers.push(await verify(tempToken, code(secret)));
    const late = (await login(person)).tempToken;
    await sql(`update mfa_challenges set expires_at = now() where user_id = ?`, [person.id]);
    answers.push(await verify(late, code(secret)), await verify('unknown', code(secret)));
    const told = answers.map(({ status, body }) => [status, body.error]);
    expect(new Set(told.map((one) => JSON.stringify(one))).size, JSON.stringify(told)).to.equal(1);
    expect(told[0]![0]).to.equal(401);
  });

  it('cannot be guessed at by beginning the sign-in anew again and again', async () => {
    const { person, secret } = await enabled();
    for (let i = 0; i < 15; i++) {
      expect((await verify((await login(person)).tempToken, '000000')).status).to.equal(401);
    }
    const over = await verify((await login(person)).tempToken, code(secret));
    expect([over.status, over.body.code]).to.deep.equal([429, 'RATE_LIMITED']);
    expect(Number(over.headers.get('retry-after'))).to.be.within(1, 900);
    await sql(`update user_mfa set tries_since = now() - interval '15 minutes' where user_id = ?`, [
      person.id,
    ]);
    expect((await verify((await login(person)).tempToken, code(secret))).status).to.equal(200);
  });

  it('is not met by a sign-in that was begun with a password that has been changed since', async () => {
    const { person, secret } = await enabled();
    const { tempToken } = await login(person);
    const change = { currentPassword: PASSWORD, newPassword: 'Another-Horse-10' };
    expect((await post('/auth/change-password', change, person.token)).status).to.equal(200);
    expect((await verify(tempToken, code(secret))).status).to.equal(401);
  });

  it('is not met by a person who was disabled meanwhile', async () => {
    const { person, secret } = await enabled();
    const { tempToken } = await login(person);
    await sql(`update users set status = 'disabled' where id = ?`, [person.id]);
    expect((await verify(tempToken, code(secret))).status).to.equal(401);
  });

  it('gives new recovery codes for password and code, and the old ones are dead', async () => {
    const { person, secret, recoveryCodes } = await enabled();
    const ask = (currentPassword: string, given: string) =>
      post('/auth/mfa/recovery-codes', { currentPassword, code: given }, person.token);
    expect((await ask('wrong', code(secret))).status).to.equal(401);
    expect((await ask(PASSWORD, '000000')).status).to.equal(401);
    const renewed = await ask(PASSWORD, code(secret));
    expect(renewed.status).to.equal(200);
    expect(renewed.body.recoveryCodes).to.have.lengthOf(10);
    expect((await verify((await login(person)).tempToken, recoveryCodes[0]!)).status).to.equal(401);
    expect((await verify((await login(person)).tempToken, renewed.body.recoveryCodes[0])).status).to.equal(
      200,
    );
  });

  it('is disabled with password and code; sessions that had it have it no more', async () => {
    const { person, secret } = await enabled();
    const met = await verify((await login(person)).tempToken, code(secret));
    await later(person);
    const { accessToken } = met.body.tokens;
    const disable = (body: object) => post('/auth/mfa/disable', body, accessToken);
    expect((await disable({ currentPassword: PASSWORD, code: '000000' })).status).to.equal(401);
    expect((await disable({ currentPassword: PASSWORD, code: code(secret) })).status).to.equal(200);
    expect((await disable({ currentPassword: PASSWORD, code: code(secret) })).status).to.equal(409);
    expect(await login(person)).to.include({ mfaRequired: false });
    await app.server.chainWriter.flush();
    const actions = await sql(
      `select action from audit_logs where actor_id = ? and action like 'user.mfa%' order by id`,
      [person.id],
    );
    expect(actions).to.deep.equal([{ action: 'user.mfa_enable' }, { action: 'user.mfa_disable' }]);
  });

  it('cannot be guessed at with a stolen access token', async () => {
    const { person, secret } = await enabled();
    const statuses = [];
    for (let i = 0; i < 11; i++) {
      const guess = { currentPassword: `guess ${i}`, code: code(secret) };
      statuses.push((await post('/auth/mfa/disable', guess, person.token)).status);
    }
    expect(statuses).to.deep.equal([...Array(10).fill(401), 429]);
  });

  it('is sealed anew with the newest key, when it is used or by rotate-secrets', async () => {
    const [used, unused] = [await enabled(), await enabled()];
    const env = { SECRET_ENCRYPTION_KEY: SECOND_KEY, SECRET_ENCRYPTION_KEYS_OLD: FIRST_KEY };
    const second = await createTestApp({ database: app.database, env });
    try {
      const newest = createEncryptor({ current: SECOND_KEY, old: [] });
      const opens = async ({ person, secret }: typeof used) => {
        const [row] = await sql('select secret from user_mfa where user_id = ?', [person.id]);
        if (newest.isStale(row.secret)) return false;
        return newest.open(row.secret, sealContext('user_mfa', 'secret', person.id)).text === secret;
      };
      const { tempToken } = await login(used.person);
      const met = await second.call('POST', '/auth/mfa/verify', {
        body: { tempToken, code: code(used.secret) },
      });
      expect(met.status).to.equal(200);
      expect([await opens(used), await opens(unused)]).to.deep.equal([true, false]);

      const without = await rotated({ SECRET_ENCRYPTION_KEY: SECOND_KEY });
      expect(without.code).to.equal(1);
      expect(without.err).to.contain('SECRET_ENCRYPTION_KEYS_OLD').and.not.contain('    at ');
      const first = await rotated(env);
      expect(first, first.err).to.include({ code: 0 });
      const [, seen, anew] = /user_mfa\.secret: (\d+) sealed, (\d+) sealed again/.exec(first.out) ?? [];
      expect(Number(anew)).to.equal(Number(seen) - 1);
      expect(await opens(unused)).to.equal(true);
      expect((await rotated(env)).out).to.contain(' 0 sealed again');
    } finally {
      await second.close();
    }
  });

  it('belongs to its person alone', async () => {
    const { person } = await enabled();
    const other = await signIn(app, (await newPerson()).email);
    const answer = await post('/auth/mfa/disable', { currentPassword: PASSWORD, code: '000000' }, other);
    expect(answer.status).to.equal(409);
    expect(await login(person)).to.include({ mfaRequired: true });
  });
});
