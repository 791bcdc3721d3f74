import { hash } from '@node-rs/argon2';
import { expect } from 'chai';
import { buildPerson, buildTenant, PASSWORD, type Person } from '../../../../support/factories.ts';
import { passkeysOf } from '../../../../support/auth/passkey-support.ts';
import type { SoftwareAuthenticator, Untruth } from '../../../../support/auth/software-authenticator.ts';
import { createMailbox, type Mailbox } from '../../../../support/mailbox.ts';
import {
  enforceFor,
  entriesOf,
  openSessionBy,
} from '../../../../support/sso/enforcement/enforcement-support.ts';
import { insertProvider, query } from '../../../../support/sso/sso-support.ts';
import { type Answer, createTestApp, type TestApp } from '../../../../support/test-app.ts';

type Registered = Person & { authenticator: SoftwareAuthenticator; passkeyId: string };

describe('signing in with a passkey', () => {
  let app: TestApp;
  let mailbox: Mailbox;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let orgId: string;
  let passkeys: ReturnType<typeof passkeysOf>;
  before(async () => {
    mailbox = await createMailbox();
    app = await createTestApp({
      env: { DATA_DIR: mailbox.dataDir, TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1' },
    });
    passkeys = passkeysOf(app, from);
  });
  beforeEach(async () => {
    test++;
    tenant = await buildTenant(app);
    ({ orgId } = tenant);
  });
  after(async () => {
    await app.close();
    await mailbox.remove();
  });

  /** Attempts are counted by address, so each test has one of its own. */
  let test = 0;
  const from = () => ({ 'x-forwarded-for': `192.0.2.${test}` });
  const post = (path: string, body: object, token?: string) =>
    app.call('POST', path, { body, token, headers: from() });
  async function registered(settings?: { signCount?: number }): Promise<Registered> {
    const person = await buildPerson(app, { scope: 'organization', orgId });
    const { authenticator, id } = await passkeys.register(person, {
      authenticator: passkeys.newAuthenticator(settings),
    });
    return { ...person, authenticator, passkeyId: id };
  }
  /** The same refusal for every cause, which sets no cookie. */
  const expectRefused = (answer: Answer, title?: string) => {
    const { error, code } = answer.body;
    expect([answer.status, code, error], title).to.deep.equal([
      401,
      'UNAUTHENTICATED',
      'The passkey was not accepted.',
    ]);
    expect(answer.headers.getSetCookie(), title).to.deep.equal([]);
  };
  const failuresOf = async ({ id }: Person) => {
    await app.settle();
    return (await entriesOf(app, 'user.login.failed', id)).map(({ details }) => details['reason']);
  };

  describe('alone', () => {
    it('opens a session that has both factors, for the browser of the request', async () => {
      const person = await registered();
      const question = await passkeys.signInQuestion();
      expect(question).to.deep.include({
        rpId: new URL(app.url).hostname,
        userVerification: 'required',
        allowCredentials: [],
        timeout: 300_000,
      });
      const answer = await post('/auth/passkeys/sign-in', { credential: person.authenticator.get(question) });
      expect(answer.status).to.equal(200);
      expect(answer.body).to.deep.include({ mfaRequired: false });
      expect(answer.body.user).to.deep.include({ id: person.id, mfaEnabled: true });
      const [cookie = ''] = answer.headers.getSetCookie();
      expect(cookie)
        .to.match(/^svc_refresh=.+HttpOnly/)
        .and.match(/Path=\/api\/v1\/auth/);
      expect(cookie).to.match(/SameSite=Strict/);
      const { accessToken } = answer.body.tokens;
      const domain = await post('/sso/domains', { orgId, domain: 'not a domain' }, accessToken);
      expect(domain.status, 'the domain is wrong, the session has a second factor').to.equal(400);
      const [login] = await entriesOf(app, 'user.login', person.id);
      expect(login?.details).to.include({ mfa: true });
    });

    const UNTRUE: [title: string, untruth: Untruth][] = [
      ['of another origin', { origin: 'https://muster.example.net' }],
      ['for another server', { rpId: 'example.net' }],
      ['with a challenge that nobody issued', { challenge: 'A'.repeat(43) }],
      ['of a registration', { type: 'webauthn.create' }],
      ['from within a frame of another site', { crossOrigin: true }],
      ['without user verification', { userVerified: false }],
      ['that names nobody', { userHandle: null }],
      ['that names another person', { userHandle: Buffer.alloc(16).toString('base64url') }],
      ['of a passkey that is not registered', { credentialId: 'A'.repeat(43) }],
    ];
    for (const [title, untruth] of UNTRUE) {
      it(`is refused with an answer ${title}`, async () => {
        const { authenticator } = await registered();
        expectRefused(await passkeys.signIn(authenticator, untruth));
        expect((await passkeys.signIn(authenticator)).status, 'the truth').to.equal(200);
      });
    }

    it('is refused with the passkey of another person, by whoever signs for it', async () => {
      const [victim, attacker] = [await registered(), await registered()];
      const { credentialId } = victim.authenticator;
      const victimsHandle = Buffer.from(victim.id.replaceAll('-', ''), 'hex').toString('base64url');
      for (const untruth of [{ credentialId }, { credentialId, userHandle: victimsHandle }]) {
        expectRefused(await passkeys.signIn(attacker.authenticator, untruth));
      }
      expectRefused(await passkeys.signIn(attacker.authenticator, { userHandle: victimsHandle }));
      expect(await failuresOf(victim)).to.deep.equal(['passkey', 'passkey']);
    });

    it('is refused with a signature, data or answer that was changed', async () => {
      const { authenticator } = await registered();
      for (const field of ['signature', 'authenticatorData', 'clientDataJSON'] as const) {
        const credential = authenticator.get(await passkeys.signInQuestion());
        const bytes = Buffer.from(credential.response[field], 'base64url');
        bytes[bytes.length - 2]! ^= 1;
        credential.response[field] = bytes.toString('base64url');
        expectRefused(await post('/auth/passkeys/sign-in', { credential }), field);
      }
    });

    it('takes each answer once, also when it comes many times at once, and none after five minutes', async () => {
      const { authenticator } = await registered();
      const question = await passkeys.signInQuestion();
      const credential = authenticator.get(question);
      const send = () => post('/auth/passkeys/sign-in', { credential });
      const answers = await Promise.all(Array.from({ length: 6 }, send));
      expect(answers.filter(({ status }) => status === 200)).to.have.length(1);
      expectRefused(await send(), 'a replayed answer');
      const again = { credential: authenticator.get(question) };
      expectRefused(await post('/auth/passkeys/sign-in', again), 'a replayed challenge');

      const late = authenticator.get(await passkeys.signInQuestion());
      await query(app, `update passkey_challenges set expires_at = now() - interval '1 second'`);
      expectRefused(await post('/auth/passkeys/sign-in', { credential: late }), 'an expired challenge');
    });

    it('is refused with the challenge of another ceremony', async () => {
      const person = await registered();
      const { authenticator } = person;
      const tempToken = await passkeys.passwordOf(person);
      for (const question of [
        await passkeys.stepUpQuestion(person.token),
        await passkeys.factorQuestion(tempToken),
      ]) {
        expectRefused(await post('/auth/passkeys/sign-in', { credential: authenticator.get(question) }));
      }
      const { challenge } = await passkeys.begin(person.token);
      const answer = authenticator.get(await passkeys.signInQuestion(), { challenge });
      expectRefused(await post('/auth/passkeys/sign-in', { credential: answer }));
      const question = await passkeys.signInQuestion();
      const credential = authenticator.get(question);
      expectRefused(await post('/auth/mfa/step-up-passkey', { credential }, person.token));
      expectRefused(await post('/auth/mfa/passkey-verify', { tempToken, credential }));
      // Nobody has used it up in the wrong place.
      expect((await post('/auth/passkeys/sign-in', { credential })).status).to.equal(200);
    });

    it('is refused once the person is disabled, in between or before, has left, or removed the passkey', async () => {
      const person = await registered();
      const credential = person.authenticator.get(await passkeys.signInQuestion());
      await query(app, `update users set status = 'disabled' where id = ?`, [person.id]);
      expectRefused(await post('/auth/passkeys/sign-in', { credential }), 'disabled in between');
      expectRefused(await passkeys.signIn(person.authenticator), 'disabled');
      expect(await failuresOf(person)).to.deep.equal(['passkey', 'passkey']);

      const left = await registered();
      await query(app, 'delete from organization_users where user_id = ?', [left.id]);
      expect((await passkeys.signIn(left.authenticator)).status).to.equal(401);
      const without = await registered();
      await query(app, 'delete from passkeys where user_id = ?', [without.id]);
      expectRefused(await passkeys.signIn(without.authenticator));
    });

    it('is refused for people of a suspended partner, as with the password', async () => {
      const person = await registered();
      await query(app, `update partners set status = 'suspended' where id = ?`, [tenant.partnerId]);
      const answer = await passkeys.signIn(person.authenticator);
      expect([answer.status, answer.body.code]).to.deep.equal([403, 'PARTNER_INACTIVE']);
      expect(await failuresOf(person)).to.deep.equal(['partner_inactive']);
    });

    it('is refused where single sign-on is enforced, except for break-glass people', async () => {
      const [person, named] = [await registered(), await registered()];
      await enforceFor(app, { org_id: orgId }, [named]);
      const answer = await passkeys.signIn(person.authenticator);
      expect([answer.status, answer.body.code]).to.deep.equal([403, 'SSO_REQUIRED']);
      expect(answer.body.details).to.deep.equal({ loginUrl: `${app.url}/api/v1/sso/login/${orgId}` });
      expect(answer.headers.getSetCookie()).to.deep.equal([]);
      expect(await failuresOf(person)).to.deep.equal(['sso_required']);
      expect((await passkeys.signIn(named.authenticator)).status).to.equal(200);
      expect(await entriesOf(app, 'sso.break_glass', named.id)).to.have.length(1);
    });

    it('is refused for an account without a password where single sign-on is enforced', async () => {
      const person = await registered();
      await query(app, 'update users set password_hash = null where id = ?', [person.id]);
      expect((await passkeys.signIn(person.authenticator)).status, 'not enforced').to.equal(200);
      await enforceFor(app, { org_id: orgId });
      expect((await passkeys.signIn(person.authenticator)).body.code).to.equal('SSO_REQUIRED');
    });

    it('is limited by address together with the password, and reset by no other person', async () => {
      const { authenticator } = await registered();
      const headers = { 'x-forwarded-for': '203.0.113.7' };
      const attempt = async () => {
        const credential = authenticator.get(await passkeys.signInQuestion(), { userVerified: false });
        return app.call('POST', '/auth/passkeys/sign-in', { body: { credential }, headers });
      };
      const statuses = [];
      for (let n = 0; n < 11; n++) statuses.push((await attempt()).status);
      expect(statuses, 'ten on one account from one address').to.deep.equal([
        ...Array.from({ length: 10 }, () => 401),
        429,
      ]);
      const unknown = passkeys.newAuthenticator();
      const guess = async () =>
        app.call('POST', '/auth/passkeys/sign-in', {
          body: { credential: unknown.get(await passkeys.signInQuestion(), { userHandle: 'AAAA' }) },
          headers,
        });
      for (let n = 0; n < 19; n++) expect((await guess()).status).to.equal(401);
      const refused = await guess();
      expect(refused.status, 'thirty from one address').to.equal(429);
      expect(Number(refused.headers.get('retry-after'))).to.be.above(0);
      const login = await app.call('POST', '/auth/login', {
        body: { email: tenant.admin.email, password: PASSWORD },
        headers,
      });
      expect(login.status, 'a password from there').to.equal(429);
    });

    it('does not close with guesses at the password', async () => {
      const person = await registered();
      const cheap = await hash(PASSWORD, { memoryCost: 8, timeCost: 1, parallelism: 1 });
      await query(app, 'update users set password_hash = ? where id = ?', [cheap, person.id]);
      const guess = (n: number) =>
        app.call('POST', '/auth/login', {
          body: { email: person.email, password: 'wrong' },
          headers: { 'x-forwarded-for': `198.51.100.${n}` },
        });
      for (let n = 0; n < 50; n++) expect((await guess(n)).status).to.equal(401);
      expect((await guess(50)).status).to.equal(429);
      expect((await passkeys.signIn(person.authenticator)).status).to.equal(200);
    });

    it('refuses nonsense in every field, however long', async () => {
      const { authenticator } = await registered();
      const good = authenticator.get(await passkeys.signInQuestion());
      const wrong = (credential: object) => post('/auth/passkeys/sign-in', { credential });
      for (const nonsense of ['A'.repeat(60_000), '', 'not base64url!', 17, {}]) {
        for (const field of ['id', 'rawId', 'type'] as const) {
          expect((await wrong({ ...good, [field]: nonsense })).status, field).to.equal(400);
        }
        for (const field of ['clientDataJSON', 'authenticatorData', 'signature', 'userHandle'] as const) {
          const response = { ...good.response, [field]: nonsense };
          expect((await wrong({ ...good, response })).status, field).to.equal(400);
        }
      }
      expect((await wrong({ ...good, id: 'A'.repeat(1 << 20) })).status, 'a megabyte').to.equal(413);
      for (const text of ['{', '[]', '{"challenge":7}', '']) {
        const clientDataJSON = Buffer.from(text || ' ').toString('base64url');
        expectRefused(await wrong({ ...good, response: { ...good.response, clientDataJSON } }), text);
      }
      const short = { ...good.response, authenticatorData: 'AAAA' };
      expectRefused(await wrong({ ...good, response: short }), 'data that is too short');
    });
  });

  describe('that counts its signatures', () => {
    it('goes up, and one of many that come at once with the same count is refused', async () => {
      const { authenticator } = await registered({ signCount: 1 });
      for (let n = 0; n < 3; n++) expect((await passkeys.signIn(authenticator)).status).to.equal(200);
      const signCount = 10;
      const answers = await Promise.all([1, 2, 3].map(() => passkeys.signIn(authenticator, { signCount })));
      expect(answers.filter(({ status }) => status === 200)).to.have.length.at.most(1);
    });

    it('is suspect once its count goes back, stays so, and every session ends', async () => {
      for (const [signCount, title] of [
        [4, 'the same'],
        [3, 'lower'],
        [0, 'none any more'],
      ] as const) {
        const person = await registered({ signCount: 3 });
        const { authenticator } = person;
        expect((await passkeys.signIn(authenticator)).status).to.equal(200);
        expectRefused(await passkeys.signIn(authenticator, { signCount }), title);
        expectRefused(await passkeys.signIn(authenticator, { signCount: 100 }), 'afterwards');
        expect((await app.call('GET', '/auth/me', { token: person.token })).status).to.equal(401);
        const open = 'select 1 from sessions where user_id = ? and revoked_at is null';
        expect(await query(app, open, [person.id])).to.deep.equal([]);
        const [entry] = await entriesOf(app, 'user.passkey_suspect', person.id);
        expect(entry).to.deep.include({
          org_id: orgId,
          resource_id: person.id,
          result: 'failure',
          details: { passkeyId: person.passkeyId, name: 'Laptop' },
        });
        expect(await mailbox.newest(person.email, 2)).to.contain('a copy of it exists');
        // The account keeps its second factor: a password alone must not be enough because of this.
        const login = await post('/auth/login', { email: person.email, password: PASSWORD });
        expect(login.body).to.deep.include({ mfaRequired: true, methods: ['recovery_code'] });
        const options = await post('/auth/mfa/passkey-options', { tempToken: login.body.tempToken });
        expect(options.status).to.equal(409);
      }
    });

    it('may stay at zero, as that of a passkey that is copied on purpose', async () => {
      const { authenticator } = await registered();
      for (let n = 0; n < 3; n++) expect((await passkeys.signIn(authenticator)).status).to.equal(200);
    });
  });

  describe('as the second factor behind a password', () => {
    it('finishes the sign-in, also without user verification', async () => {
      const person = await registered();
      const tempToken = await passkeys.passwordOf(person);
      const question = await passkeys.factorQuestion(tempToken);
      expect(question.userVerification).to.equal('preferred');
      expect(question.allowCredentials).to.deep.equal([
        { id: person.authenticator.credentialId, type: 'public-key', transports: ['internal', 'hybrid'] },
      ]);
      const credential = person.authenticator.get(question, { userVerified: false, userHandle: null });
      const answer = await post('/auth/mfa/passkey-verify', { tempToken, credential });
      expect(answer.status).to.equal(200);
      expect(answer.headers.getSetCookie()[0]).to.match(/^svc_refresh=/);
      const again = await post('/auth/mfa/passkey-verify', { tempToken, credential });
      expect(again.status, 'the sign-in is used up').to.equal(401);
      const options = await post('/auth/mfa/passkey-options', { tempToken });
      expect(options.status).to.equal(401);
    });

    it('is refused for another sign-in, with the passkey of another person, and after five attempts', async () => {
      const [person, other] = [await registered(), await registered()];
      const [one, two] = [await passkeys.passwordOf(person), await passkeys.passwordOf(person)];
      const credential = person.authenticator.get(await passkeys.factorQuestion(one));
      expectRefused(
        await post('/auth/mfa/passkey-verify', { tempToken: two, credential }),
        'another sign-in',
      );
      expectRefused(await passkeys.verify(two, other.authenticator), 'another person');
      expectRefused(await passkeys.verify(two, person.authenticator, { origin: 'https://evil.example' }));
      for (let n = 0; n < 2; n++) {
        const code = await post('/auth/mfa/verify', { tempToken: two, code: '000000' });
        expect(code.status).to.equal(401);
      }
      const sixth = await post('/auth/mfa/passkey-verify', {
        tempToken: two,
        credential: person.authenticator.get(await passkeys.factorQuestion(two)),
      });
      expect(sixth.status).to.equal(401);
      expect((await post('/auth/mfa/passkey-verify', { tempToken: one, credential })).status).to.equal(200);
    });

    it('counts as codes do: fifteen attempts in a quarter of an hour', async () => {
      const person = await registered();
      const attempt = async (untruth: Untruth) => {
        const tempToken = await passkeys.passwordOf(person);
        return (await passkeys.verify(tempToken, person.authenticator, untruth)).status;
      };
      for (let n = 0; n < 15; n++) expect(await attempt({ origin: 'https://evil.example' })).to.equal(401);
      expect(await attempt({})).to.equal(429);
      await query(app, `update user_mfa set tries_since = now() - interval '16 minutes' where user_id = ?`, [
        person.id,
      ]);
      expect(await attempt({})).to.equal(200);
      expect(await query(app, 'select tries from user_mfa where user_id = ?', [person.id])).to.deep.equal([
        { tries: 0 },
      ]);
    });

    it('is refused where the person is disabled, or single sign-on is enforced, meanwhile', async () => {
      const [gone, governed] = [await registered(), await registered()];
      const sign = async (person: Registered) => {
        const tempToken = await passkeys.passwordOf(person);
        return { tempToken, credential: person.authenticator.get(await passkeys.factorQuestion(tempToken)) };
      };
      const [ofGone, ofGoverned] = [await sign(gone), await sign(governed)];
      await query(app, `update users set status = 'disabled' where id = ?`, [gone.id]);
      expect((await post('/auth/mfa/passkey-verify', ofGone)).status).to.equal(401);
      await enforceFor(app, { org_id: orgId });
      const answer = await post('/auth/mfa/passkey-verify', ofGoverned);
      expect(answer.body.code).to.equal('SSO_REQUIRED');
    });
  });

  describe('for a session that has none', () => {
    it('adds the second factor to it, and to no other', async () => {
      const person = await registered();
      const providerId = await insertProvider(app, { org_id: orgId });
      const [session, other] = [
        await openSessionBy(app, person, providerId),
        await openSessionBy(app, person, providerId),
      ];
      const prove = (token: string) => post('/sso/domains', { orgId, domain: 'not a domain' }, token);
      expect((await prove(session.token)).body.code).to.equal('MFA_REQUIRED');
      const question = await passkeys.stepUpQuestion(session.token);
      expect(question.userVerification).to.equal('required');
      const credential = person.authenticator.get(question);
      expectRefused(await post('/auth/mfa/step-up-passkey', { credential }, other.token), 'another session');
      const answer = await post('/auth/mfa/step-up-passkey', { credential }, session.token);
      expect(answer.body).to.have.all.keys('accessToken', 'expiresInSeconds');
      expect((await prove(session.token)).status).to.equal(400);
      expect((await prove(other.token)).body.code).to.equal('MFA_REQUIRED');
      const [entry] = await entriesOf(app, 'user.mfa_step_up', person.id);
      expect(entry?.details).to.deep.equal({ passkeyId: person.passkeyId });
    });

    it('is refused without user verification, by another person’s passkey, and after ten attempts', async () => {
      const [person, other] = [await registered(), await registered()];
      const attempts = [
        () => passkeys.stepUp(person.token, person.authenticator, { userVerified: false }),
        () => passkeys.stepUp(person.token, other.authenticator),
        () => passkeys.stepUp(person.token, person.authenticator, { origin: 'https://evil.example' }),
      ];
      for (let n = 0; n < 10; n++) expectRefused(await attempts[n % 3]!());
      expect((await passkeys.stepUp(person.token, person.authenticator)).status).to.equal(429);
    });

    it('ends with the passkey: its session counts no second factor any more', async () => {
      const person = await registered();
      await app.call('DELETE', `/auth/passkeys/${person.passkeyId}`, { token: person.token });
      const domain = await post('/sso/domains', { orgId, domain: 'not a domain' }, person.token);
      expect(domain.body.code).to.equal('MFA_REQUIRED');
      expect((await post('/auth/mfa/step-up-options', {}, person.token)).status).to.equal(409);
      const login = await post('/auth/login', { email: person.email, password: PASSWORD });
      expect(login.body).to.include({ mfaRequired: false });
    });
  });
});
