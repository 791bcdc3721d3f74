import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { buildEnrollmentKey, buildTenant, MACHINE } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

const FAILURES = 30;
const TRIES = 1200;

describe('how often an address may try to enroll in an hour', function () {
  this.timeout(120_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let key: string;
  /** Refused for another reason than the key, which is a try all the same. */
  let inactive: string;
  let lastAddress = 0;
  let ip: string;

  before(async () => {
    app = await createTestApp({
      env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1/32', DATABASE_POOL_SIZE: '10' },
    });
    tenant = await buildTenant(app);
    key = await buildEnrollmentKey(app, tenant.orgId);
    const closed = await buildTenant(app);
    inactive = await buildEnrollmentKey(app, closed.orgId);
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('organizations').where({ id: closed.orgId }).update({ status: 'suspended' }),
    );
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

  it('is 1200 tries an hour in all: a school behind one address comes in by the hundreds', async () => {
    expect(await statuses(200, () => key)).to.deep.equal({ 201: 200 });
    expect(await statuses(TRIES - 200, () => inactive)).to.deep.equal({ 403: TRIES - 200 });
    const { status, body, headers } = await enroll(key);
    expect([status, body.code]).to.deep.equal([429, 'RATE_LIMITED']);
    expect(Number(headers.get('retry-after'))).to.be.within(3000, 3600);
  });

  it('has no cap on tries for the machine that the server runs on, but one on bad keys', async () => {
    ip = '127.0.0.1';
    expect(await statuses(TRIES + 10, () => inactive)).to.deep.equal({ 403: TRIES + 10 });
    expect((await enroll(key)).status).to.equal(201);
    for (let i = 0; i < FAILURES; i++) await enroll('nonsense');
    expect((await enroll(key)).status).to.equal(429);
  });
});
