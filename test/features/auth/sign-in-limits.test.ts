import { expect } from 'chai';
import { buildTenant, PASSWORD } from '../../support/factories.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

describe('trying passwords', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  beforeEach(async () => {
    app = await createTestApp({ env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1' } });
    tenant = await buildTenant(app);
  });
  afterEach(async () => app.close());

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

  it('ends after thirty from one address, whoever is tried', async () => {
    const statuses = await tries(40, (n) => login('203.0.113.2', 'wrong', `nobody-${n}@example.com`));
    expect([times(statuses, 401), times(statuses, 429)]).to.deep.equal([30, 10]);
    expect((await login('203.0.113.3', PASSWORD)).status).to.equal(200);
  });

  it('treats accounts that do not exist like those that do', async () => {
    const statuses = await tries(12, () => login('203.0.113.4', 'wrong', 'nobody@example.com'));
    expect([times(statuses, 401), times(statuses, 429)]).to.deep.equal([10, 2]);
  });

  it('costs nothing when the password is right', async () => {
    for (let n = 0; n < 40; n++) expect((await login('203.0.113.5', PASSWORD)).status).to.equal(200);
  });

  it('closes an account that is tried from everywhere to strangers, and not to its holder', async () => {
    expect((await login('198.51.100.7', PASSWORD)).status).to.equal(200);
    const statuses = await tries(60, (n) => login(`203.0.113.${n + 1}`, 'wrong'));
    expect([times(statuses, 401), times(statuses, 429)]).to.deep.equal([50, 10]);
    expect((await login('192.0.2.1', PASSWORD)).status).to.equal(429);
    expect((await login('198.51.100.7', PASSWORD)).status).to.equal(200);
  });

  it('leaves those who are signed in their answers meanwhile', async () => {
    let answered = 0;
    const flood = tries(60, async (n) => {
      const answer = await login(`203.0.113.${n + 1}`, 'wrong', `nobody-${n}@example.com`);
      answered += 1;
      return answer;
    });
    for (let n = 0; n < 5; n++) {
      expect((await app.call('GET', '/auth/me', { token: tenant.admin.token })).status).to.equal(200);
    }
    // Were they served in their turn, they would come after all or nearly all of the flood.
    expect(answered).to.be.below(30);
    await flood;
  });
});
