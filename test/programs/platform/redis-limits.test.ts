import { expect } from 'chai';
import {
  buildDevice,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
  MACHINE,
  PASSWORD,
} from '../../support/factories.ts';
import { connectDevice } from '../../support/fake-device.ts';
import { eventually } from '../../support/eventually.ts';
import { redisOrSkip, type TestRedis } from '../../support/redis.ts';
import { call, createTestApp, type TestApp } from '../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

const AWAY = { code: 'UNAVAILABLE', error: 'Service temporarily unavailable' };
/** Redis is gone, or hangs: no request may wait longer than this for its refusal. */
// Redis does not come back before it is told to, so any answer is one that did not wait for it.
const AT_ONCE_MS = 15_000;
let count = 0;

describe('limits on Redis', () => {
  let redis: TestRedis;
  let database: TestDatabase;
  let first: TestApp;
  let second: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  const start = () =>
    createTestApp({
      database,
      env: { REDIS_URL: redis.url, TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1' },
    });

  before(async function () {
    redis = await redisOrSkip(this);
    database = await createTestDatabase();
    [first, second] = [await start(), await start()];
    tenant = await buildTenant(first);
  });
  after(async () => {
    await first?.close();
    await second?.close();
    await database?.drop();
    await redis?.remove();
  });

  const address = () => `203.0.113.${++count}`;
  const post = async (app: TestApp, path: string, body: object, from = address()) => {
    const startedAt = performance.now();
    const answer = await app.call('POST', path, { body, headers: { 'x-forwarded-for': from } });
    return { ...answer, ms: performance.now() - startedAt };
  };
  const login = (app: TestApp, password = PASSWORD, from = address(), email = tenant.admin.email) =>
    post(app, '/auth/login', { email, password }, from);
  const account = () => ({
    companyName: 'Acme',
    name: 'Ann',
    email: `ann-${++count}@example.com`,
    password: PASSWORD,
    acceptTerms: true,
  });
  const newKey = async (rateLimit: number) => {
    const { body } = await first.call('POST', '/api-keys', {
      token: tenant.admin.token,
      body: { name: 'Script', scopes: ['devices:read'], rateLimit },
    });
    return body.key as string;
  };
  const use = async (app: TestApp, key: string) => (await app.call('GET', '/devices', { token: key })).status;
  const ready = async (app: TestApp) => {
    const { status, body } = await call(`${app.url}/health/ready`, 'GET');
    return { status, redis: body.checks.redis as string };
  };
  const isBack = (app: TestApp) =>
    eventually(
      () => ready(app),
      (state) => state.redis === 'ok',
    );
  const said = (app: TestApp, event: string) => app.log.filter((line) => line['event'] === event).length;

  it('are one for all servers: a password is tried ten times, wherever', async () => {
    const from = address();
    const statuses = [];
    for (let n = 0; n < 12; n++) {
      const email = n % 3 === 0 ? tenant.technician.email.toUpperCase() : tenant.technician.email;
      statuses.push((await login(n % 2 === 0 ? first : second, 'wrong', from, email)).status);
    }
    expect(statuses).to.deep.equal([...Array(10).fill(401), 429, 429]);
    const right = await login(second, PASSWORD, from, tenant.technician.email);
    expect(right.status).to.equal(429);
    expect(Number(right.headers.get('retry-after'))).to.be.within(800, 900);
  });

  it('are one for registrations, mails, codes and API keys too', async () => {
    const alternately = async (times: number, one: (app: TestApp) => Promise<number>) => {
      const statuses = [];
      for (let n = 0; n < times; n++) statuses.push(await one(n % 2 === 0 ? first : second));
      return statuses;
    };
    const from = address();
    const registered = await alternately(
      4,
      async (app) => (await post(app, '/auth/register-partner', account(), from)).status,
    );
    expect(registered).to.deep.equal([201, 201, 201, 429]);

    const email = 'forgetful@example.com';
    const mailed = await alternately(
      4,
      async (app) => (await post(app, '/auth/forgot-password', { email })).status,
    );
    expect(mailed).to.deep.equal([200, 200, 200, 429]);

    const { token } = await buildPerson(first, { scope: 'partner', partnerId: tenant.partnerId });
    const guessed = await alternately(
      11,
      async (app) =>
        (await app.call('POST', '/auth/mfa/setup', { token, body: { currentPassword: 'wrong' } })).status,
    );
    expect(guessed).to.deep.equal([...Array(10).fill(401), 429]);

    const key = await newKey(3);
    expect(await alternately(4, (app) => use(app, key))).to.deep.equal([200, 200, 200, 429]);
  });

  it('keep no address in the store, and nothing for ever', async () => {
    await login(first, 'wrong', '203.0.113.77', 'Somebody.Known@example.com');
    const keys = (await redis.ask('KEYS', '*')).split('\r\n').filter((line) => !/^[*$]/.test(line));
    const named = keys.filter((key) => key !== '' && key !== 'muster:nodes');
    expect(named.length).to.be.greaterThan(3);
    for (const key of named) {
      expect(key).to.match(/^muster:limit:[a-z-]+:[\w-]{43}$/);
      expect(await redis.ask('TTL', key)).to.match(/^:[1-9]\d*\r\n$/);
    }
  });

  it('are ready to be asked', async () => {
    expect(await ready(first)).to.deep.equal({ status: 200, redis: 'ok' });
    expect(said(first, 'redis.lost')).to.equal(0);
  });

  for (const [how, lose, regain] of [
    ['gone', () => redis.kill(), () => redis.start()],
    ['hanging', async () => redis.freeze(), async () => redis.thaw()],
  ] as const) {
    describe(`while Redis is ${how}`, () => {
      let keyFromBefore: string;
      let device: EnrolledDevice;
      before(async () => {
        await isBack(first);
        keyFromBefore = await newKey(3);
        // It was refused here once with 503, why is not known: what is tested comes after this.
        device = await eventually(
          async () => buildDevice(first, tenant.orgId).catch(() => undefined),
          (made) => made !== undefined,
        ).then((made) => made!);
        expect(await use(first, keyFromBefore)).to.equal(200);
        for (const app of [first, second]) app.log.length = 0;
        await lose();
      });
      after(async () => regain());

      it('refuse whom they cannot count, at once: sign-in, registration, enrollment, mails and codes', async () => {
        for (const [path, body] of [
          ['/auth/login', { email: tenant.admin.email, password: PASSWORD }],
          ['/auth/register-partner', account()],
          ['/auth/register', account()],
          ['/auth/forgot-password', { email: tenant.admin.email }],
          ['/agents/enroll', { ...MACHINE, enrollmentKey: 'unknown' }],
        ] as const) {
          const { status, body: answer, ms, headers } = await post(first, path, body);
          expect([status, answer.code, answer.error], path).to.deep.equal([503, AWAY.code, AWAY.error]);
          expect(ms, path).to.be.below(AT_ONCE_MS);
          expect(headers.get('retry-after')).to.equal('5');
        }
        const setup = await first.call('POST', '/auth/mfa/setup', {
          token: tenant.admin.token,
          body: { currentPassword: PASSWORD },
        });
        expect([setup.status, setup.body.code]).to.deep.equal([503, AWAY.code]);
      });

      it('leave alone who is signed in, agents, and the readiness of the node', async () => {
        const agent = await connectDevice(first, device.token);
        expect(await agent.heartbeat()).to.include({ ok: true });
        agent.close();
        const devices = await first.call('GET', '/devices', { token: tenant.admin.token });
        expect(devices.status).to.equal(200);
        const state = await eventually(
          () => ready(first),
          (now) => now.redis === 'unavailable',
        );
        expect(state.status).to.equal(200);
      });

      it('count API keys in each process, from what it has seen before', async () => {
        const statuses = [];
        for (let n = 0; n < 3; n++) statuses.push(await use(first, keyFromBefore));
        expect(statuses).to.deep.equal([200, 200, 429]);
        expect(await use(second, keyFromBefore)).to.equal(200);
      });

      it('work again by themselves when it is back, and the loss and the return are logged once each', async () => {
        await regain();
        const startedAt = Date.now();
        await isBack(first);
        expect(Date.now() - startedAt).to.be.below(AT_ONCE_MS);
        expect((await login(first)).status).to.equal(200);
        expect([said(first, 'redis.lost'), said(first, 'redis.regained')]).to.deep.equal([1, 1]);
        expect(first.log.filter(({ level }) => level === 'error')).to.deep.equal([]);
      });
    });
  }

  it('do not keep a server from its start, which warns without the password of the URL', async () => {
    const env = { REDIS_URL: redis.url.replace('//', '//limits:do-not-tell-me@') };
    // There is no such user: Redis quotes what it refuses.
    for (const [prepare, reason] of [
      [() => redis.kill(), 'ECONNREFUSED'],
      [() => redis.start(), 'WRONGPASS'],
    ] as const) {
      await prepare();
      const startedAt = performance.now();
      const third = await createTestApp({ database, env });
      try {
        expect(performance.now() - startedAt).to.be.below(AT_ONCE_MS);
        expect(await ready(third)).to.deep.equal({ status: 200, redis: 'unavailable' });
        // There is no administrator in this database, which is a warning of its own.
        const warnings = third.log.filter(
          ({ level, event }) => level === 'warn' && event !== 'server.no_administrator',
        );
        expect(warnings).to.have.lengthOf(1);
        expect(warnings[0]).to.deep.include({ event: 'redis.lost', redis: redis.url, reason });
        expect((await login(third)).status).to.equal(503);
      } finally {
        await third.close();
      }
      expect(JSON.stringify(third.log)).not.to.contain('do-not-tell-me');
    }
  });
});
