import { hash } from '@node-rs/argon2';
import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildTenant, PASSWORD } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

/** The least that the algorithm allows: where only the limits count, many passwords are checked at no cost. */
const CHEAP = { memoryCost: 8, timeCost: 1, parallelism: 1 };
const KNOWN = 40;
/** Accounts that `makeCheap` adds. */
const known = (n: number) => `known-${n}@example.com`;

/** Everybody's password is checked at little cost from now on, and there are `KNOWN` people more. */
async function makeCheap(app: TestApp): Promise<void> {
  const passwordHash = await hash(PASSWORD, CHEAP);
  await withSystem(app.server.database.pool, 'test data', async (tx) => {
    await tx('users').update({ password_hash: passwordHash });
    const people = Array.from({ length: KNOWN }, (_value, n) => ({
      id: newId(),
      email: known(n),
      name: `Known ${n}`,
      password_hash: passwordHash,
      email_verified_at: new Date(),
    }));
    await tx('users').insert(people).onConflict().ignore();
  });
}

describe('trying passwords', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp({ env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1' } });
  });
  after(async () => app.close());
  // The addresses are of one test each as well.
  beforeEach(async () => {
    tenant = await buildTenant(app);
    await makeCheap(app);
  });

  const login = async (from: string, password: string, email = tenant.admin.email) => {
    const answer = await app.call('POST', '/auth/login', {
      headers: { 'x-forwarded-for': from },
      body: { email, password },
    });
    return {
      status: answer.status,
      retryAfter: Number(answer.headers.get('retry-after')),
      code: answer.body.code,
    };
  };
  const tries = async (count: number, one: (index: number) => Promise<{ status: number }>) =>
    (await Promise.all(Array.from({ length: count }, (_value, index) => one(index)))).map(
      ({ status }) => status,
    );
  const times = (statuses: number[], status: number) => statuses.filter((one) => one === status).length;

  it('ends after ten on one account from one address, also in parallel, in any case of the address', async () => {
    const statuses = await tries(14, (n) =>
      login('203.0.113.1', 'wrong', n % 2 === 0 ? tenant.admin.email : tenant.admin.email.toUpperCase()),
    );
    expect([times(statuses, 401), times(statuses, 429)]).to.deep.equal([10, 4]);
    const right = await login('203.0.113.1', PASSWORD);
    expect([right.status, right.code]).to.deep.equal([429, 'RATE_LIMITED']);
    expect(right.retryAfter).to.be.within(800, 900);
  });

  it('ends after thirty from one address, for whichever accounts', async () => {
    const statuses = await tries(KNOWN, (n) =>
      login('203.0.113.2', 'wrong', n % 8 === 0 ? `nobody-${n}@example.com` : known(n)),
    );
    expect([times(statuses, 401), times(statuses, 429)]).to.deep.equal([30, 10]);
    expect((await login('203.0.113.3', PASSWORD)).status).to.equal(200);
  });

  it('treats accounts that do not exist like those that do', async () => {
    const statuses = await tries(12, () => login('203.0.113.4', 'wrong', 'nobody@example.com'));
    expect([times(statuses, 401), times(statuses, 429)]).to.deep.equal([10, 2]);
  });

  it('costs nothing when the password is right', async () => {
    for (let n = 0; n < 32; n++) expect((await login('203.0.113.5', PASSWORD)).status).to.equal(200);
  });

  it('closes an account that is tried from everywhere to strangers, and not to its holder', async () => {
    expect((await login('198.51.100.7', PASSWORD)).status).to.equal(200);
    const statuses = await tries(60, (n) => login(`100.64.0.${n}`, 'wrong'));
    expect([times(statuses, 401), times(statuses, 429)]).to.deep.equal([50, 10]);
    expect((await login('192.0.2.1', PASSWORD)).status).to.equal(429);
    expect((await login('198.51.100.7', PASSWORD)).status).to.equal(200);
    expect((await login('192.0.2.1', PASSWORD)).status, 'after the holder has signed in').to.equal(429);
  });

  it('leaves those who are signed in their answers meanwhile', async () => {
    let answered = 0;
    const flood = tries(30, async (n) => {
      const answer = await login(`100.64.1.${n}`, 'wrong', `nobody-${n}@example.com`);
      answered += 1;
      return answer;
    });
    const me = async () => (await app.call('GET', '/auth/me', { token: tenant.admin.token })).status;
    expect(await me()).to.equal(200);
    // Were it served in its turn, its answer would come after all of the flood.
    expect(answered).to.be.below(30);
    for (let n = 0; n < 5; n++) expect(await me()).to.equal(200);
    await flood;
  });
});

describe('trying passwords behind a proxy that is not configured', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    await makeCheap(app);
  });
  after(async () => app.close());

  const login = async (headers: Record<string, string>, password: string, email: string) =>
    (await app.call('POST', '/auth/login', { headers, body: { email, password } })).status;
  const warnings = () => app.log.filter(({ event }) => event === 'http.proxy_not_configured');

  it('locks out the client that tries, and not everyone else behind the proxy', async () => {
    for (const headers of [{ 'x-forwarded-for': '203.0.113.1' }, { forwarded: 'for=203.0.113.1' }]) {
      const strangers = Array.from({ length: KNOWN }, (_value, n) => login(headers, 'wrong', known(n)));
      await Promise.all(strangers);
      expect(await login({ 'x-forwarded-for': '203.0.113.2' }, PASSWORD, tenant.admin.email)).to.equal(200);
    }
    expect(await login({ 'x-forwarded-for': '203.0.113.1' }, PASSWORD, tenant.admin.email)).to.equal(429);
    expect(warnings()).to.have.lengthOf(1);
    expect(warnings()[0]).to.include({ level: 'warn', set: 'TRUST_PROXY_HEADERS, TRUSTED_PROXY_CIDRS' });
  });

  it('still ends for an account, whatever the headers say', async () => {
    const { email } = tenant.technician;
    const statuses = await Promise.all(
      Array.from({ length: 55 }, (_value, n) =>
        login({ 'x-forwarded-for': `198.51.100.${n}` }, 'wrong', email),
      ),
    );
    expect(statuses.filter((status) => status === 401)).to.have.lengthOf(50);
    expect(await login({ 'x-forwarded-for': '192.0.2.1' }, PASSWORD, email)).to.equal(429);
  });
});

describe('trying passwords from IPv6', () => {
  let app: TestApp;
  let email: string;

  before(async () => {
    app = await createTestApp({ env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1' } });
    email = (await buildTenant(app)).admin.email;
    await makeCheap(app);
  });
  after(async () => app.close());

  const login = async (from: string, password: string, who = email) =>
    (
      await app.call('POST', '/auth/login', {
        headers: { 'x-forwarded-for': from },
        body: { email: who, password },
      })
    ).status;

  it('counts the network and not the address, of which one line has more than anyone can try', async () => {
    const statuses = await Promise.all(
      Array.from({ length: KNOWN }, (_value, n) => login(`2001:db8::${n + 1}`, 'wrong', known(n))),
    );
    expect(statuses.filter((status) => status === 401)).to.have.lengthOf(30);
    const register = async (n: number) =>
      (
        await app.call('POST', '/auth/register-partner', {
          headers: { 'x-forwarded-for': `2001:db8:5::${n}` },
          body: {
            companyName: `Six ${n}`,
            name: 'Ann',
            email: `six-${n}@example.com`,
            password: PASSWORD,
            acceptTerms: true,
          },
        })
      ).status;
    const registered = [];
    for (let n = 1; n <= 4; n++) registered.push(await register(n));
    expect(registered).to.deep.equal([201, 201, 201, 429]);
  });

  it('knows its holder by the network too, whose address changes every day', async () => {
    expect(await login('2001:db8:7::1', PASSWORD)).to.equal(200);
    await Promise.all(Array.from({ length: 60 }, (_value, n) => login(`203.0.113.${n + 1}`, 'wrong')));
    expect(await login('2001:db8:8::1', PASSWORD), 'a stranger').to.equal(429);
    expect(await login('2001:db8:7::2', PASSWORD)).to.equal(200);
  });
});
