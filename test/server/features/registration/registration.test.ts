import { expect } from 'chai';
import fc from 'fast-check';
import { slugCandidates, slugOf } from '../../../../src/features/registration/registration.service.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { buildPartner, buildTenant } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

const PASSWORD = 'Correct-Horse-9';
let addresses = 0;

describe('registration', () => {
  let app: TestApp;

  before(async () => {
    app = await createTestApp({ env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1' } });
  });
  after(async () => app.close());

  const from = () => `203.0.113.${++addresses}`;
  const post = (path: string, body: object, ip = from(), to = app) =>
    to.call('POST', path, { body, headers: { 'x-forwarded-for': ip } });
  const details = (more: object = {}) => ({
    companyName: 'Acme & Søns',
    name: 'Ann',
    email: `ann-${++addresses}@example.com`,
    password: PASSWORD,
    acceptTerms: true,
    ...more,
  });
  const register = (more: object = {}, ip?: string) => post('/auth/register-partner', details(more), ip);
  const inDatabase = async (sql: string, values: readonly string[] = []) =>
    (await withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values))).rows;

  it('makes a provider that waits for approval, its role and its administrator, and signs them in', async () => {
    const { status, body, headers } = await register({ email: 'first@example.com' });
    expect(status).to.equal(201);
    expect(body.user).to.deep.include({ email: 'first@example.com', name: 'Ann', mfaEnabled: false });
    expect(body.partner).to.deep.include({ name: 'Acme & Søns', slug: 'acme-s-ns' });
    expect(body.tokens.expiresInSeconds).to.equal(900);
    expect(body.mfaRequired).to.equal(false);
    expect(headers.getSetCookie()[0]).to.match(/^svc_refresh=/);

    const [row] = await inDatabase(
      `select p.status, p.type, p.plan, r.name, r.scope, r.is_system, r.permissions, u.org_access
      from partners p join partner_users u on u.partner_id = p.id join roles r on r.id = u.role_id where p.id = ?`,
      [body.partner.id],
    );
    expect(row).to.deep.equal({
      status: 'pending',
      type: 'msp',
      plan: 'free',
      name: 'Partner Admin',
      scope: 'partner',
      is_system: true,
      permissions: ['*:*'],
      org_access: 'all',
    });

    const waiting = await app.call('GET', '/auth/me', { token: body.tokens.accessToken });
    expect([waiting.status, waiting.body.code]).to.deep.equal([403, 'PARTNER_INACTIVE']);
    await inDatabase(`update partners set status = 'active' where id = ?`, [body.partner.id]);
    const approved = await app.call('GET', '/auth/me', { token: body.tokens.accessToken });
    expect(approved.body).to.deep.include({
      scope: 'partner',
      partnerId: body.partner.id,
      accessibleOrgIds: [],
    });
  });

  it('does not reveal that an address is taken, and leaves nothing behind', async () => {
    const { admin } = await buildTenant(app);
    const count = async () =>
      (
        await inDatabase(
          'select (select count(*) from partners)::int as p, (select count(*) from roles)::int as r',
        )
      )[0];
    const before = await count();
    const { status, body, headers } = await register({ email: admin.email.toUpperCase() });
    expect([status, body.success]).to.deep.equal([201, true]);
    expect(body.message).to.be.a('string');
    expect(headers.getSetCookie()).to.deep.equal([]);
    expect(await count()).to.deep.equal(before);

    const taken = await post('/auth/register', details({ email: admin.email }));
    const free = await post('/auth/register', details());
    expect(taken.body).to.deep.equal(free.body);
    expect(taken.status).to.equal(free.status);
  });

  it('makes one of many that register with one address at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => register({ email: 'race@example.com' })),
    );
    expect(answers.filter(({ body }) => body.partner !== undefined)).to.have.length(1);
    expect(
      (await inDatabase(`select count(*)::int as n from users where email = 'race@example.com'`))[0].n,
    ).to.equal(1);
  });

  it('gives each provider a slug of its own, also when many come at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => register({ companyName: 'Same Name' })),
    );
    const slugs = answers.map(({ body }) => body.partner.slug);
    expect(slugs).to.have.members([
      'same-name',
      'same-name-1',
      'same-name-2',
      'same-name-3',
      'same-name-4',
      'same-name-5',
    ]);
  });

  it('gives up when a name has been taken a hundred times', async () => {
    for (const slug of slugCandidates('Full House')) await buildPartner(app, { slug });
    const { status, body } = await register({ companyName: 'Full House' });
    expect([status, body.error]).to.deep.equal([500, 'Unable to generate unique company identifier']);
  });

  it('names the first rule that a password breaks, and every field that is not right', async () => {
    const weak = await register({ password: 'short' });
    expect([weak.status, weak.body.error]).to.deep.equal([
      400,
      'The password must have at least 8 characters.',
    ]);
    const wrong = await register({ companyName: 'x', name: '', email: 'nobody', acceptTerms: false });
    expect(wrong.body.details.map(({ path }: { path: string }) => path)).to.have.members([
      'body.companyName',
      'body.name',
      'body.name',
      'body.email',
      'body.acceptTerms',
    ]);
  });

  it('is limited to three providers, or five people, an hour from one address', async () => {
    const statuses = async (count: number, path: string) => {
      const ip = from();
      const answers = [];
      for (let n = 0; n < count; n++) answers.push((await post(path, details(), ip)).status);
      return answers;
    };
    expect(await statuses(4, '/auth/register-partner')).to.deep.equal([201, 201, 201, 429]);
    expect(await statuses(6, '/auth/register')).to.deep.equal([201, 201, 201, 201, 201, 429]);
  });

  it('counts every attempt, also one that cannot be read', async () => {
    for (const [path, allowed] of [
      ['/auth/register-partner', 3],
      ['/auth/register', 5],
    ] as const) {
      const ip = from();
      for (let n = 0; n < allowed; n++) {
        expect((await post(path, { email: 'nobody' }, ip)).status, path).to.equal(400);
      }
      expect((await post(path, details(), ip)).status, path).to.equal(429);
    }
  });

  it('leaves an account without membership outside until it is invited', async () => {
    const account = details();
    await post('/auth/register', account);
    const { status } = await post('/auth/login', { email: account.email, password: PASSWORD });
    expect(status).to.equal(401);
  });

  it('can be switched off, and says so whatever is sent', async () => {
    const closed = await createTestApp({ env: { ENABLE_REGISTRATION: 'off' } });
    for (const path of ['/auth/register-partner', '/auth/register']) {
      for (const sent of [
        { body: details() },
        { body: {} },
        { rawBody: '{"name":' },
        { rawBody: JSON.stringify({ name: 'x'.repeat(200_000) }) },
        { rawBody: 'a=1', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
        {},
      ]) {
        const { status, body } = await closed.call('POST', path, sent);
        expect([status, body.code], JSON.stringify(sent).slice(0, 80)).to.deep.equal([
          403,
          'REGISTRATION_DISABLED',
        ]);
      }
    }
    await closed.close();
  });
});

describe('the slug of a company', () => {
  it('is lower case, hyphenated and at most 50 characters', () => {
    expect(slugOf('  Bright--Smile, Dental!  ')).to.equal('bright-smile-dental');
    expect(slugOf('日本')).to.equal('company');
    fc.assert(
      fc.property(fc.string({ minLength: 2, maxLength: 255, unit: 'grapheme' }), (name) => {
        expect(slugOf(name)).to.match(/^[a-z0-9]+(-[a-z0-9]+)*$/);
        expect(slugOf(name).length).to.be.at.most(50);
        expect(new Set(slugCandidates(name)).size).to.equal(101);
      }),
    );
  });
});
