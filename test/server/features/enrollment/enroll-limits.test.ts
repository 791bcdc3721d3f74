import { expect } from 'chai';
import { newToken } from '../../../../src/platform/secrets/tokens.ts';
import { buildEnrollmentKey, buildTenant, MACHINE } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

const FAILURES = 30;

describe('how often an address may try to enroll', function () {
  this.timeout(120_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let key: string;
  let lastAddress = 0;
  let ip: string;

  before(async () => {
    app = await createTestApp({
      env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1/32', DATABASE_POOL_SIZE: '10' },
    });
    tenant = await buildTenant(app);
    key = await buildEnrollmentKey(app, tenant.orgId);
  });
  after(async () => app.close());
  beforeEach(() => {
    ip = `203.0.113.${++lastAddress}`;
  });

  const enroll = (enrollmentKey: string, from = ip) =>
    app.call('POST', '/agents/enroll', {
      body: { ...MACHINE, enrollmentKey },
      headers: { 'x-forwarded-for': from },
    });
  const statuses = async (count: number, enrollmentKey: () => string) => {
    const counted: Record<number, number> = {};
    for (let done = 0; done < count; done += 20) {
      const answers = await Promise.all(
        Array.from({ length: Math.min(20, count - done) }, () => enroll(enrollmentKey())),
      );
      for (const { status } of answers) counted[status] = (counted[status] ?? 0) + 1;
    }
    return counted;
  };

  it('is thirty bad keys in five minutes, of whatever kind; then it waits, and others do not', async () => {
    const revoked = await buildEnrollmentKey(app, tenant.orgId, { revoked_at: new Date() });
    const bad = ['nonsense', newToken('enrollmentKey'), revoked];
    for (let i = 0; i < FAILURES; i++) expect((await enroll(bad[i % 3]!)).status).to.equal(401);
    for (const next of [...bad, key]) {
      const { status, body, headers } = await enroll(next);
      expect([status, body.code]).to.deep.equal([429, 'RATE_LIMITED']);
      expect(Number(headers.get('retry-after'))).to.be.within(250, 300);
    }
    expect((await enroll(key, '198.51.100.1')).status).to.equal(201);
  });

  it('does not count good keys among the bad ones, nor bodies that cannot be read', async () => {
    for (let i = 0; i < FAILURES - 1; i++) await enroll('nonsense');
    expect(await statuses(60, () => key)).to.deep.equal({ 201: 60 });
    const unreadable = await app.call('POST', '/agents/enroll', {
      body: {},
      headers: { 'x-forwarded-for': ip },
    });
    expect(unreadable.status).to.equal(400);
    expect((await enroll('nonsense')).status).to.equal(401);
    expect((await enroll(key)).status).to.equal(429);
  });
});
