import { expect } from 'chai';
import { openPool, openSession, poolState, type Db } from '../../../src/platform/db/pool.ts';
import { databaseAppError } from '../../../src/platform/db/database-errors.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { eventually } from '../../support/eventually.ts';

/** So short that the tests need not wait, except for the one of the whole server. */
const SILENT_MS = 400;
/** What a server may take at most until it works again, with room for a busy machine. */
const RECOVERED_MS = 15_000;

describe('connections to the database that are lost without a word', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  const opened: Db[] = [];

  const through = (url: string) => {
    const changed = new URL(url);
    changed.hostname = '127.0.0.1';
    changed.port = String(proxy.port);
    return changed.href;
  };
  /** A pool of three with all its connections open. */
  const pool = async () => {
    const db = openPool(through(database.appUrl), { max: 3, name: 'lost-connections', silentMs: SILENT_MS });
    opened.push(db);
    await Promise.all([1, 2, 3].map(() => db.raw('select pg_sleep(0.05)')));
    return db;
  };
  const failureOf = (work: PromiseLike<unknown>) =>
    Promise.resolve(work).then(
      () => undefined,
      (error: unknown) => error,
    );

  before(async () => {
    database = await createTestDatabase();
    const { hostname, port } = new URL(database.appUrl);
    proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  });
  afterEach(async () => {
    proxy.swallowNew(false);
    await Promise.all(opened.splice(0).map((db) => db.destroy()));
  });
  after(async () => {
    await proxy.cut();
    await database.drop();
  });

  for (const how of ['abandon', 'freeze'] as const) {
    it(`are replaced when the network does "${how}", and waiting requests are answered that the database is not available`, async function () {
      this.timeout(120_000);
      const db = await pool();
      const startedAt = performance.now();
      proxy[how]();
      const failures = await Promise.all([1, 2, 3].map(() => failureOf(db.raw('select 1'))));
      for (const failure of failures) expect(databaseAppError(failure)?.code).to.equal('unavailable');
      await eventually(
        () =>
          db.raw('select 1').then(
            () => true,
            () => false,
          ),
        (works) => works,
        RECOVERED_MS,
      );
      expect(performance.now() - startedAt).to.be.below(RECOVERED_MS);
    });
  }

  it('cost one request, not one for each connection that was idle', async function () {
    this.timeout(120_000);
    const db = await pool();
    proxy.abandon();
    await failureOf(db.raw('select 1'));
    const startedAt = performance.now();
    for (const _connection of [1, 2, 3]) await db.raw('select 1');
    expect(performance.now() - startedAt).to.be.below(3000);
  });

  it('are given up as well while nothing new can be opened', async function () {
    this.timeout(120_000);
    const db = await pool();
    proxy.freeze();
    proxy.swallowNew(true);
    const startedAt = performance.now();
    const failure = await failureOf(db.raw('select 1'));
    expect(databaseAppError(failure)?.code).to.equal('unavailable');
    expect(databaseAppError(await failureOf(db.raw('select 1')))?.code).to.equal('unavailable');
    expect(performance.now() - startedAt).to.be.below(RECOVERED_MS + 5000);
    proxy.swallowNew(false);
    await db.raw('select 1');
  });

  it('are not confused with a statement that takes long', async function () {
    this.timeout(120_000);
    const db = await pool();
    const { rows } = await db.raw(`select pg_sleep(1.5)::text as slept`);
    expect(rows).to.deep.equal([{ slept: '' }]);
    const session = openSession(through(database.ownerUrl), 'lost-connections-session', {
      silentMs: SILENT_MS,
    });
    opened.push(session);
    await session.raw('select pg_sleep(1.5)');
  });

  describe('under a whole server', () => {
    let app: TestApp;
    before(async () => {
      app = await createTestApp({
        database: { ...database, appUrl: through(database.appUrl) },
      });
    });
    after(async () => {
      // What is still lost ends here, so that closing waits for nothing.
      await proxy.cut();
      await proxy.mend();
      await app.close();
    });

    it('let it go on, and readiness reports it', async function () {
      this.timeout(120_000);
      const ready = async () => (await app.call('GET', '/health/ready')).status;
      expect(await ready()).to.equal(200);
      proxy.freeze();
      const startedAt = performance.now();
      await eventually(ready, (status) => status === 503, RECOVERED_MS);
      await eventually(ready, (status) => status === 200, RECOVERED_MS);
      expect(performance.now() - startedAt).to.be.below(RECOVERED_MS);
      // So do all pools: none of their connections is a lost one.
      const { pool: requests, hubPool, jobPool, queuePool, storePool } = app.server.database;
      const pools = [requests, hubPool, jobPool, queuePool, storePool];
      const failures = (each: Db) =>
        Promise.all(
          Array.from({ length: poolState(each).free }, () => failureOf(each.raw('select pg_sleep(0.05)'))),
        );
      for (const each of pools) {
        await eventually(
          () => failures(each),
          (found) => found.every((failure) => failure === undefined),
        );
      }
    });
  });
});
