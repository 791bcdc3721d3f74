import { expect } from 'chai';
import { buildPerson, buildTenant, PASSWORD, type Person } from '../../../../support/factories.ts';
import {
  codeOf,
  enableSecondFactor,
  forgetLastCode,
} from '../../../../support/auth/second-factor-support.ts';
import { passkeysOf } from '../../../../support/auth/passkey-support.ts';
import { rsaKeyOf, type Untruth } from '../../../../support/auth/software-authenticator.ts';
import { createMailbox, type Mailbox } from '../../../../support/mailbox.ts';
import { entriesOf } from '../../../../support/sso/enforcement/enforcement-support.ts';
import { query } from '../../../../support/sso/sso-support.ts';
import { createTestApp, type TestApp } from '../../../../support/test-app.ts';

describe('registering passkeys', () => {
  let app: TestApp;
  let mailbox: Mailbox;
  let orgId: string;
  let person: Person;
  let passkeys: ReturnType<typeof passkeysOf>;
  before(async () => {
    mailbox = await createMailbox();
    app = await createTestApp({ env: { DATA_DIR: mailbox.dataDir } });
    passkeys = passkeysOf(app);
    ({ orgId } = await buildTenant(app));
  });
  beforeEach(async () => {
    person = await newPerson();
  });
  after(async () => {
    await app.close();
    await mailbox.remove();
  });

  const newPerson = () => buildPerson(app, { scope: 'organization', orgId });
  const post = (path: string, body: object, token: string = person.token) =>
    app.call('POST', path, { body, token });
  const list = async (token = person.token) => (await app.call('GET', '/auth/passkeys', { token })).body.data;
  const factors = async () => (await app.call('GET', '/auth/mfa', { token: person.token })).body;
  const remove = (id: string, token = person.token) => app.call('DELETE', `/auth/passkeys/${id}`, { token });
  /** The second factor of the session was given that long ago. */
  const ageFactor = (minutes: number) =>
    query(app, 'update sessions set mfa_at = now() - make_interval(mins => ?) where user_id = ?', [
      minutes,
      person.id,
    ]);
  const credentialOf = async (untruth: Untruth = {}, authenticator = passkeys.newAuthenticator()) =>
    authenticator.create(await passkeys.begin(person.token, { currentPassword: PASSWORD }), untruth);
  const register = async (untruth: Untruth = {}, authenticator = passkeys.newAuthenticator()) =>
    post('/auth/passkeys', { name: 'Laptop', credential: await credentialOf(untruth, authenticator) });

  it('begins with what a browser needs', async () => {
    const options = await passkeys.begin(person.token, { currentPassword: PASSWORD });
    const { challenge, user, rp, ...rest } = options;
    expect(Buffer.from(challenge, 'base64url')).to.have.length(32);
    expect(rp).to.deep.equal({ id: new URL(app.url).hostname, name: 'Muster' });
    expect(user.name).to.equal(person.email);
    expect(Buffer.from(user.id, 'base64url').toString('hex')).to.equal(person.id.replaceAll('-', ''));
    expect(rest).to.deep.equal({
      pubKeyCredParams: [-8, -7, -257].map((alg) => ({ alg, type: 'public-key' })),
      timeout: 300_000,
      attestation: 'none',
      excludeCredentials: [],
      authenticatorSelection: {
        residentKey: 'required',
        requireResidentKey: true,
        userVerification: 'required',
      },
    });
  });

  for (const algorithm of ['ES256', 'EdDSA', 'RS256'] as const) {
    for (const attestation of ['none', 'packed'] as const) {
      it(`takes a key for ${algorithm} with the attestation “${attestation}”, and lets it in`, async () => {
        const authenticator = passkeys.newAuthenticator({ algorithm });
        expect((await register({ attestation }, authenticator)).status).to.equal(201);
        expect((await passkeys.signIn(authenticator)).status).to.equal(200);
      });
    }
  }

  it('makes the account one with a second factor, with recovery codes, and the session one that has given it', async () => {
    const { id, recoveryCodes, authenticator } = await passkeys.register(person);
    expect(recoveryCodes).to.have.length(10);
    expect(await factors()).to.deep.equal({ mfaEnabled: true, app: false, passkeys: 1, recoveryCodes: 10 });
    const [passkey] = await list();
    expect(passkey).to.have.all.keys('id', 'name', 'synced', 'suspectAt', 'lastUsedAt', 'createdAt');
    expect(passkey).to.include({ id, name: 'Laptop', synced: false, suspectAt: null, lastUsedAt: null });
    const domain = await post('/sso/domains', { orgId, domain: 'not a domain' });
    expect(domain.status, 'the domain is wrong, the session is not').to.equal(400);
    const entry = (await entriesOf(app, 'user.passkey_add', person.id))[0];
    expect(entry).to.deep.include({ org_id: orgId, resource_id: person.id, result: 'success' });
    expect(entry?.details).to.deep.equal({
      passkeyId: id,
      name: 'Laptop',
      synced: false,
      before: { mfaEnabled: false },
      after: { mfaEnabled: true },
    });
    expect(await mailbox.newest(person.email)).to.contain('The passkey "Laptop" has just been added');
    const login = await app.call('POST', '/auth/login', {
      body: { email: person.email, password: PASSWORD },
    });
    expect(login.body).to.deep.include({ mfaRequired: true, methods: ['recovery_code', 'passkey'] });
    const { tempToken } = login.body;
    const [code] = recoveryCodes;
    const met = await app.call('POST', '/auth/mfa/verify', { body: { tempToken, code } });
    expect(met.status, 'a recovery code').to.equal(200);
    await passkeys.signIn(authenticator);
    expect((await list())[0].lastUsedAt).to.be.a('string');
  });

  it('asks for the password of the first, and for a fresh second factor from the second on', async () => {
    for (const body of [{}, { currentPassword: 'wrong' }]) {
      expect((await post('/auth/passkeys/options', body)).status, JSON.stringify(body)).to.be.oneOf([
        400, 401,
      ]);
    }
    const { id } = await passkeys.register(person);
    const second = await passkeys.register(person, { name: 'Key', body: {} });
    expect(second.recoveryCodes).to.deep.equal([]);
    await ageFactor(14);
    await passkeys.begin(person.token);
    await ageFactor(16);
    for (const attempt of [
      () => post('/auth/passkeys/options', { currentPassword: PASSWORD }),
      () => remove(id),
      () => post('/auth/mfa/setup', { currentPassword: PASSWORD }),
      () => post('/auth/mfa/recovery-codes', { currentPassword: PASSWORD }),
    ]) {
      const answer = await attempt();
      expect([answer.status, answer.body.code]).to.deep.equal([403, 'MFA_REQUIRED']);
    }
    expect((await passkeys.stepUp(person.token, second.authenticator)).status).to.equal(200);
    expect((await remove(id)).status).to.equal(200);
  });

  it('is not finished by a factor that has become old meanwhile', async () => {
    await passkeys.register(person);
    const credential = passkeys.newAuthenticator().create(await passkeys.begin(person.token));
    await ageFactor(16);
    const answer = await post('/auth/passkeys', { name: 'Late', credential });
    expect([answer.status, answer.body.code]).to.deep.equal([403, 'MFA_REQUIRED']);
    expect(await list()).to.have.length(1);
  });

  const REFUSED: [title: string, untruth: Untruth][] = [
    ['of another origin', { origin: 'https://muster.example.net' }],
    ['of the same host on another port', { origin: 'http://127.0.0.1:1' }],
    ['for another server', { rpId: 'example.net' }],
    ['with a challenge that nobody issued', { challenge: 'A'.repeat(43) }],
    ['of another ceremony', { type: 'webauthn.get' }],
    ['from within a frame of another site', { crossOrigin: true }],
    ['without user verification', { userVerified: false }],
    ['with the id of another key', { credentialId: 'A'.repeat(43) }],
    ['with certificates', { attestation: 'packed with certificates' }],
    ['of a form that was not asked for', { attestation: 'fido-u2f' }],
  ];
  for (const [title, untruth] of REFUSED) {
    it(`refuses an answer ${title}`, async () => {
      const answer = await register(untruth);
      expect([answer.status, answer.body.code, answer.body.error]).to.deep.equal([
        401,
        'UNAUTHENTICATED',
        'The passkey was not accepted.',
      ]);
      expect(await list()).to.deep.equal([]);
      expect(await factors()).to.include({ mfaEnabled: false, recoveryCodes: 0 });
    });
  }

  it('refuses a key for an algorithm that was not offered', async () => {
    const answer = await register({}, passkeys.newAuthenticator({ algorithm: 'ES384' }));
    expect(answer.status).to.equal(401);
  });

  it('refuses a key that is longer than any that is in use, and data that is nested without end', async () => {
    expect((await register({ publicKey: rsaKeyOf(2000) })).status).to.equal(401);
    expect((await register({ publicKey: Buffer.alloc(5000, 0x81) })).status).to.equal(401);
    const credential = await credentialOf();
    credential.response.attestationObject = Buffer.alloc(12_000, 0x81).toString('base64url');
    expect((await post('/auth/passkeys', { name: 'X', credential })).status).to.equal(401);
    expect((await register({ publicKey: rsaKeyOf(512) })).status).to.equal(201);
  });

  it('refuses an attestation that another key has signed', async () => {
    const { credentialId } = passkeys.newAuthenticator();
    const credential = await credentialOf({ attestation: 'packed' });
    const object = Buffer.from(credential.response.attestationObject, 'base64url');
    object[object.indexOf(Buffer.from('sig')) + 20]! ^= 1;
    credential.response.attestationObject = object.toString('base64url');
    expect(credentialId).not.to.equal(credential.id);
    expect((await post('/auth/passkeys', { name: 'X', credential })).status).to.equal(401);
  });

  it('takes an answer once, from the session that was asked, and within five minutes', async () => {
    const credential = await credentialOf();
    const other = await newPerson();
    expect((await post('/auth/passkeys', { name: 'X', credential }, other.token)).status).to.equal(401);
    const { token } = await sameInOtherSession();
    expect((await post('/auth/passkeys', { name: 'X', credential }, token)).status).to.equal(401);
    expect((await post('/auth/passkeys', { name: 'X', credential })).status).to.equal(201);
    expect((await post('/auth/passkeys', { name: 'X', credential })).status).to.equal(401);

    const late = passkeys.newAuthenticator().create(await passkeys.begin(person.token));
    await query(app, `update passkey_challenges set expires_at = now() - interval '1 second'`);
    expect((await post('/auth/passkeys', { name: 'X', credential: late })).status).to.equal(401);
  });

  async function sameInOtherSession() {
    const { body } = await app.call('POST', '/auth/login', {
      body: { email: person.email, password: PASSWORD },
    });
    return { token: body.tokens.accessToken as string };
  }

  it('uses a challenge up with a wrong answer', async () => {
    const authenticator = passkeys.newAuthenticator();
    const question = await passkeys.begin(person.token, { currentPassword: PASSWORD });
    const attempt = (untruth: Untruth) =>
      post('/auth/passkeys', { name: 'X', credential: authenticator.create(question, untruth) });
    expect((await attempt({ userVerified: false })).status).to.equal(401);
    expect((await attempt({})).status).to.equal(401);
  });

  it('registers a key once, also for another person', async () => {
    const { authenticator } = await passkeys.register(person);
    const again = authenticator.create(await passkeys.begin(person.token));
    expect((await post('/auth/passkeys', { name: 'Again', credential: again })).status).to.equal(409);
    const other = await newPerson();
    const theirs = authenticator.create(await passkeys.begin(other.token, { currentPassword: PASSWORD }));
    const answer = await post('/auth/passkeys', { name: 'Mine', credential: theirs }, other.token);
    expect([answer.status, answer.body.code]).to.deep.equal([409, 'CONFLICT']);
    // A key of their own under the id of the other's.
    const { credentialId } = authenticator;
    const forged = passkeys.newAuthenticator({ credentialId });
    const question = await passkeys.begin(other.token, { currentPassword: PASSWORD });
    const stolen = await post(
      '/auth/passkeys',
      { name: 'X', credential: forged.create(question) },
      other.token,
    );
    expect(stolen.status).to.equal(409);
    expect(await list(other.token)).to.deep.equal([]);
  });

  it('keeps twenty, also when many come at once', async () => {
    await passkeys.register(person);
    await query(
      app,
      `insert into passkeys (id, user_id, name, credential_id, public_key)
      select gen_random_uuid(), user_id, 'Copy ' || n, md5(id::text || n), public_key
      from passkeys, generate_series(1, 18) n where user_id = ?`,
      [person.id],
    );
    const credentials = [];
    for (const _ of [1, 2]) {
      const authenticator = passkeys.newAuthenticator();
      credentials.push(authenticator.create(await passkeys.begin(person.token)));
    }
    const answers = await Promise.all(
      credentials.map((credential) => post('/auth/passkeys', { name: 'Last', credential })),
    );
    // The second question has replaced the first.
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).to.deep.equal([201, 401]);
    const full = await post('/auth/passkeys/options', {});
    expect([full.status, full.body.error]).to.deep.equal([
      409,
      'An account has at most 20 passkeys. Remove one first.',
    ]);
    expect(await list()).to.have.length(20);
  });

  it('renames and removes only one’s own, and ends the other sessions with a removal', async () => {
    const { id } = await passkeys.register(person);
    const other = await newPerson();
    const rename = (token: string, name: string) =>
      app.call('PATCH', `/auth/passkeys/${id}`, { token, body: { name } });
    expect((await rename(other.token, 'Theirs')).status).to.equal(404);
    expect((await remove(id, other.token)).status).to.equal(404);
    expect((await rename(person.token, 'Key of the safe')).body).to.include({ name: 'Key of the safe' });
    expect((await rename(person.token, ' ')).status).to.equal(400);
    expect(await entriesOf(app, 'user.passkey_rename', person.id)).to.have.length(1);

    await query(
      app,
      `insert into sessions (id, user_id, expires_at)
      values (gen_random_uuid(), ?, now() + interval '1 day')`,
      [person.id],
    );
    expect((await remove(id)).body).to.deep.equal({ success: true });
    expect(await factors()).to.deep.equal({ mfaEnabled: false, app: false, passkeys: 0, recoveryCodes: 0 });
    expect(
      await query(app, 'select revoked_reason from sessions where user_id = ? order by revoked_reason', [
        person.id,
      ]),
    ).to.deep.equal([{ revoked_reason: 'passkey_removed' }, { revoked_reason: null }]);
    expect(await query(app, 'select 1 from user_mfa where user_id = ?', [person.id])).to.deep.equal([]);
    const [removal] = await entriesOf(app, 'user.passkey_remove', person.id);
    expect(removal?.details).to.deep.include({ passkeyId: id, name: 'Key of the safe' });
    expect(await mailbox.newest(person.email, 2)).to.contain('has no second factor any more');
    expect((await remove(id)).status).to.equal(404);
  });

  it('keeps app and passkeys apart: each can go while the other stays, with the recovery codes', async () => {
    const factor = await enableSecondFactor(app, person);
    const { id, recoveryCodes, authenticator } = await passkeys.register(person, { body: {} });
    expect(recoveryCodes, 'the account has codes already').to.deep.equal([]);
    const disable = { currentPassword: PASSWORD, code: factor.code() };
    expect((await post('/auth/mfa/disable', disable)).status).to.equal(200);
    expect(await factors()).to.deep.equal({ mfaEnabled: true, app: false, passkeys: 1, recoveryCodes: 10 });
    expect((await post('/auth/mfa/step-up', { code: factor.code(1) })).status, 'of the app').to.equal(401);

    const setup = await post('/auth/mfa/setup', { currentPassword: PASSWORD });
    expect(setup.body.recoveryCodes).to.deep.equal([]);

    const early = await post('/auth/mfa/step-up', { code: codeOf(setup.body.secret) });
    expect(early.status, 'of an app that is not enabled').to.equal(401);
    expect((await post('/auth/mfa/enable', { code: codeOf(setup.body.secret) })).status).to.equal(200);
    await forgetLastCode(app, person);
    expect((await remove(id)).status).to.equal(200);
    expect(await factors()).to.deep.equal({ mfaEnabled: true, app: true, passkeys: 0, recoveryCodes: 10 });
    expect((await passkeys.signIn(authenticator)).status).to.equal(401);
  });

  it('lets a passkey stand for the code where the app is turned off and recovery codes are renewed', async () => {
    const factor = await enableSecondFactor(app, person);
    const { authenticator } = await passkeys.register(person, { body: {} });
    await ageFactor(16);
    const disable = () => post('/auth/mfa/disable', { currentPassword: PASSWORD });
    expect((await disable()).status).to.equal(403);
    await passkeys.stepUp(person.token, authenticator);
    expect((await post('/auth/mfa/disable', { code: factor.code() })).status, 'no password').to.equal(400);
    expect((await disable()).status).to.equal(200);
    const renewed = await post('/auth/mfa/recovery-codes', { currentPassword: PASSWORD });
    expect(renewed.body.recoveryCodes).to.have.length(10);
  });

  it('is for people only, not for API keys', async () => {
    const { id } = await passkeys.register(person);
    const key = await post('/api-keys', { name: 'Robot', scopes: ['devices:read'] });
    const token = key.body.key as string;
    for (const [method, path, body] of [
      ['GET', '/auth/passkeys', undefined],
      ['POST', '/auth/passkeys/options', { currentPassword: PASSWORD }],
      ['POST', '/auth/passkeys', { name: 'X', credential: {} }],
      ['PATCH', `/auth/passkeys/${id}`, { name: 'X' }],
      ['DELETE', `/auth/passkeys/${id}`, undefined],
      ['POST', '/auth/mfa/step-up-options', {}],
    ] as const) {
      const answer = await app.call(method, path, { token, ...(body === undefined ? {} : { body }) });
      expect([answer.status, answer.body.code], `${method} ${path}`).to.deep.equal([403, 'FORBIDDEN']);
    }
  });

  it('refuses nonsense in every field, however long', async () => {
    const good = await credentialOf();
    const fields = ['clientDataJSON', 'attestationObject'] as const;
    const wrong = (credential: object) => post('/auth/passkeys', { name: 'X', credential });
    for (const nonsense of ['A'.repeat(60_000), '', 'not base64url!', 17, null, {}]) {
      for (const field of ['id', 'rawId', 'type'] as const) {
        expect((await wrong({ ...good, [field]: nonsense })).status, field).to.equal(400);
      }
      for (const field of fields) {
        const response = { ...good.response, [field]: nonsense };
        expect((await wrong({ ...good, response })).status, field).to.equal(400);
      }
    }
    for (const transports of [Array.from({ length: 11 }, () => 'usb'), ['U S B'], 'usb']) {
      expect((await wrong({ ...good, response: { ...good.response, transports } })).status).to.equal(400);
    }
    const huge = await wrong({ ...good, id: 'A'.repeat(1 << 20) });
    expect(huge.status, 'a megabyte').to.equal(413);
    const short = { ...good, response: { ...good.response, attestationObject: 'AAAA' } };
    expect((await wrong(short)).status, 'no CBOR').to.equal(401);
  });
});
