import { expect } from 'chai';
import { runCheck } from '../../../src/cli/doctor/check.ts';
import { failoverCheck } from '../../../src/cli/doctor/database-checks.ts';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { databaseAppError, isDatabaseAway } from '../../../src/platform/db/database-errors.ts';
import { type Db, openPool, poolState, writeState } from '../../../src/platform/db/pool.ts';
import { connectDashboard } from '../../support/dashboard-client.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant } from '../../support/factories.ts';
import { startPooler } from '../../support/pgbouncer.ts';
import { type ReplicatedPostgres, replicatedPostgresOrSkip } from '../../support/replicated-postgres.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { lastingPort as unusedPort } from '../../support/lasting-port.ts';
import { call, createTestApp, type TestApp } from '../../support/test-app.ts';

const SOON_MS = 30_000;

describe('a primary and its standby', function () {
  this.timeout(120_000);
  let pair: ReplicatedPostgres;
  let proxy: TcpProxy;
  /** Where the proxy leads. */
  let behind: { host: string; port: number };
  const closing: (() => Promise<unknown>)[] = [];

  beforeEach(async function () {
    pair = await replicatedPostgresOrSkip(this);
    closing.push(() => pair.remove());
    behind = { host: '127.0.0.1', port: pair.primary.port };
    proxy = await startTcpProxy(behind);
    closing.push(() => proxy.cut());
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  const pool = (url: string, more: { max?: number; silentMs?: number; throughPooler?: boolean } = {}): Db => {
    const db = openPool(url, { max: 3, name: 'primary', acquireMs: 10_000, ...more });
    closing.push(() => db.destroy());
    return db;
  };
  const named = (...ports: number[]) =>
    pair.ownerUrl(ports[0] ?? 0).replace(
      /:\d+\//,
      `:${ports[0]},${ports
        .slice(1)
        .map((port) => `127.0.0.1:${port}`)
        .join(',')}/`,
    );
  const portOf = async (db: Db) => Number((await db.raw('select inet_server_port() as port')).rows[0]?.port);
  const failureOf = (work: PromiseLike<unknown>) =>
    Promise.resolve(work).then(
      () => 'none',
      (error: unknown) => `${databaseAppError(error)?.code}, ${isDatabaseAway(error) ? 'away' : 'not away'}`,
    );
  const works = (work: () => PromiseLike<unknown>) =>
    eventually(
      () => failureOf(work()),
      (failure) => failure === 'none',
      SOON_MS,
    );

  it('are told apart: connections to a standby are refused as a database that is away, until it is promoted', async () => {
    behind.port = pair.standby.port;
    const db = pool(pair.ownerUrl(proxy.port));
    expect(await failureOf(db.raw('select 1'))).to.equal('unavailable, away');
    expect(await writeState(db)).to.equal('read_only');
    expect(poolState(db)).to.deep.equal({ used: 0, free: 0, waiting: 0 });
    await pair.primary.kill();
    await pair.standby.promote();
    await works(() => db.raw('create table written ()'));
    expect(await writeState(db)).to.equal('ok');
  });

  it('are found in a URL that names both, in any order, and again after the standby has taken over', async () => {
    const { primary, standby } = pair;
    const pools = [
      pool(named(primary.port, standby.port)),
      pool(named(standby.port, primary.port)),
      // A server that is down costs nothing but a refusal.
      pool(named(await unusedPort(), standby.port, primary.port)),
    ];
    for (const db of pools) expect(await portOf(db)).to.equal(primary.port);
    await primary.kill();
    for (const db of pools) {
      // The first statement may be the one that learns of it.
      await failureOf(db.raw('select 1'));
      expect(await failureOf(db.raw('select 1'))).to.equal('unavailable, away');
    }
    await standby.promote();
    for (const db of pools) {
      await works(() => db.raw('select 1'));
      expect(await portOf(db)).to.equal(standby.port);
    }
  });

  it('are not mistaken for each other when the former primary is back and takes writes: it is refused, whichever way leads to it', async () => {
    const { primary, standby } = pair;
    const moving = pool(pair.ownerUrl(proxy.port), { max: 1 });
    expect(await portOf(moving)).to.equal(primary.port);
    await primary.kill();
    await standby.promote();
    behind.port = standby.port;
    await works(() => moving.raw('select 1'));
    expect(await portOf(moving)).to.equal(standby.port);
    await primary.configure(`synchronous_standby_names = ''`);
    await primary.start();

    // Also for whoever has not seen the change: of two primaries, the later one is taken.
    expect(await portOf(pool(named(primary.port, standby.port)))).to.equal(standby.port);
    expect(await failureOf(pool(pair.ownerUrl(primary.port)).raw('select 1'))).to.equal('unavailable, away');
    behind.port = primary.port;
    await proxy.cut();
    await proxy.mend();
    await failureOf(moving.raw('select 1'));
    expect(await failureOf(moving.raw('create table lost ()'))).to.equal('unavailable, away');
    behind.port = standby.port;
    await works(() => moving.raw('create table kept ()'));
    const lost = await primary.ask(
      `select from pg_stat_database where datname = 'muster' and tup_inserted > 0`,
    );
    expect(lost, 'the former primary answers all the same').to.be.an('array');
    const tables = pool(named(standby.port, primary.port));
    const { rows } = await tables.raw(
      `select to_regclass('lost') as lost, to_regclass('kept')::text as kept`,
    );
    expect(rows).to.deep.equal([{ lost: null, kept: 'kept' }]);
  });

  it('both alive, with connections to the former primary in use: these end when the new one is met', async () => {
    const { standby } = pair;
    const db = pool(pair.ownerUrl(proxy.port), { max: 2 });
    let asked = 0;
    // Never silent, so it is not taken for a connection that is lost.
    const talking = failureOf(
      db.transaction(async (trx) => {
        for (; asked < 2000; asked += 1) await trx.raw('select pg_sleep(0.02)');
      }),
    );
    await eventually(
      () => asked,
      (count) => count > 0,
    );
    await standby.promote();
    behind.port = standby.port;
    // A second connection, which is made anew.
    await works(() => db.raw('select 1'));
    expect(await talking).to.equal('unavailable, away');
    expect(await portOf(db)).to.equal(standby.port);
  });

  it('are found behind poolers too, although one of these leads to a server that has stopped taking writes', async function () {
    const { primary, standby } = pair;
    const poolers = [];
    for (const { port } of [primary, standby]) {
      const pooler = await startPooler(this, [pair.ownerUrl(port)], { mode: 'transaction' });
      closing.push(() => pooler.stop());
      poolers.push(Number(new URL(pooler.through(pair.ownerUrl(port))).port));
    }
    const db = pool(named(...poolers), { throughPooler: true });
    await db.raw('create table before ()');
    expect(await portOf(db)).to.equal(primary.port);
    await standby.promote();
    await primary.ask('alter system set default_transaction_read_only = on');
    await primary.ask('select pg_reload_conf()');
    await eventually(
      () => failureOf(db.raw('create table if not exists refused ()')),
      (failure) => failure === 'unavailable, away',
      SOON_MS,
    );
    await works(() => db.raw('create table after ()'));
    expect(await portOf(db)).to.equal(standby.port);
  });

  it('let a write that no standby confirms be unknown to its caller, and never acknowledged', async () => {
    const { primary, standby } = pair;
    const db = pool(pair.ownerUrl(proxy.port), { silentMs: 400 });
    await db.raw('create table written (id int)');
    await standby.kill();
    const written = failureOf(db.raw('insert into written values (1)'));
    // The primary waits for its standby, and says that it is at work: it is not taken for a server that is gone.
    await eventually(
      () => primary.ask(`select from pg_stat_activity where wait_event = 'SyncRep'`),
      (waiting) => waiting.length === 1,
      SOON_MS,
    );
    await primary.kill();
    expect(await written).to.equal('unavailable, away');
    await standby.start();
    await standby.promote();
    behind.port = standby.port;
    await works(() => db.raw('select 1'));
    expect((await db.raw('select * from written')).rows).to.deep.equal([]);
  });

  describe('behind a whole server', () => {
    let app: TestApp;
    const ready = async () => {
      const { status, body } = await call(`${app.url}/health/ready`, 'GET');
      return `${status} ${body.checks?.database}`;
    };
    const readyAs = (wanted: string) => eventually(ready, (state) => state === wanted, SOON_MS);
    const noise = () =>
      app.log.filter(
        ({ level, event }) => level === 'error' || event === 'server.fault' || level === 'fatal',
      );

    it('readiness says that the database takes no writes; they answer 503, and go on without a restart', async () => {
      app = await createTestApp({
        database: {
          ownerUrl: pair.ownerUrl(pair.primary.port),
          appUrl: pair.appUrl(proxy.port),
          drop: async () => {},
        },
      });
      closing.push(() => app.close());
      const { admin, orgId } = await buildTenant(app);
      const { token } = admin;
      const write = async (name: string) =>
        (await app.call('POST', '/orgs/sites', { token, body: { orgId, name, timezone: 'UTC' } })).status;
      expect(await write('before')).to.equal(201);
      const setReadOnly = async (state: 'on' | 'off') => {
        await pair.primary.ask(`alter system set default_transaction_read_only = ${state}`);
        await pair.primary.ask('select pg_reload_conf()');
      };
      await setReadOnly('on');
      await readyAs('503 read_only');
      for (let count = 0; count < 5; count += 1) expect(await write(`meanwhile ${count}`)).to.equal(503);
      await setReadOnly('off');
      await readyAs('200 ok');
      expect(await write('after')).to.equal(201);
      expect(noise()).to.deep.equal([]);
    });

    it('and behind PgBouncer in transaction mode: writes go on, rights end at once and jobs run after the failover', async function () {
      const pooler = await startPooler(this, [pair.appUrl(proxy.port)], { mode: 'transaction' });
      closing.push(() => pooler.stop());
      app = await createTestApp({
        database: {
          ownerUrl: pair.ownerUrl(pair.primary.port),
          appUrl: pooler.through(pair.appUrl(proxy.port)),
          sessionUrl: pair.appUrl(proxy.port),
          drop: async () => {},
        },
      });
      closing.push(() => app.close());
      const { admin, orgId } = await buildTenant(app);
      const { token } = admin;
      const { deviceId } = await buildDevice(app, orgId);
      const person = await buildPerson(app, {
        scope: 'organization',
        orgId,
        role: SYSTEM_ROLES.organizationViewer,
      });
      const dashboard = await connectDashboard(app, person.token);
      const order = async (key: string) =>
        app.call('POST', `/devices/${deviceId}/commands`, {
          token,
          body: { type: 'agent.refresh-inventory' },
          headers: { 'idempotency-key': key },
        });
      const first = await order('one');
      expect(first.status).to.equal(202);

      await pair.primary.kill();
      behind.port = pair.standby.port;
      const meanwhile = await order('two');
      expect(meanwhile.status).to.equal(503);
      await readyAs('503 read_only');
      await pair.standby.promote();
      const again = await eventually(
        async () => {
          const answer = await order('two');
          expect(answer.status).to.be.oneOf([202, 503]);
          return answer;
        },
        ({ status }) => status === 202,
        SOON_MS,
      );
      expect((await order('two')).body.id).to.equal(again.body.id);
      expect((await order('one')).body.id).to.equal(first.body.id);

      await eventually(
        () => app.log.filter(({ event }) => event === 'database.notifications_regained'),
        (lines) => lines.length === 1,
        SOON_MS,
      );
      const disabled = await app.call('PATCH', `/users/${person.id}`, {
        token,
        body: { status: 'disabled' },
      });
      expect(disabled.status).to.equal(200);
      await eventually(
        () => dashboard.socket.connected,
        (isConnected) => !isConnected,
        SOON_MS,
      );
      const mailed = () => app.log.filter(({ event }) => event === 'job.succeeded').length;
      const before = mailed();
      expect(
        (await app.call('POST', '/auth/forgot-password', { body: { email: admin.email } })).status,
      ).to.equal(200);
      await eventually(mailed, (count) => count > before, SOON_MS);
      expect(noise()).to.deep.equal([]);
    });
  });

  it('let doctor say whether a failover could lose what was acknowledged', async () => {
    const db = pool(named(pair.primary.port, pair.standby.port));
    const finding = async (url: string) => {
      const { state, message } = await runCheck(failoverCheck(db, url));
      return `${state}: ${message}`;
    };
    const [both, one] = [named(pair.primary.port, pair.standby.port), pair.ownerUrl(pair.primary.port)];
    const set = async (setting: string) => {
      await pair.primary.ask(`alter system set ${setting}`);
      await pair.primary.ask('select pg_reload_conf()');
    };
    expect(await finding(both)).to.match(/^ok: .*muster_standby/);
    await set('synchronous_commit = local');
    await eventually(
      () => finding(both),
      (text) => /^warning: .* names 2 servers.* synchronous_commit is local\./.test(text),
    );
    await set(`synchronous_standby_names = ''`);
    await eventually(
      () => finding(both),
      (text) => text.includes('synchronous_standby_names is empty'),
    );
    expect(await finding(one)).to.match(/^skipped: /);
  });
});
