import { expect } from 'chai';
import pg from 'pg';
import { Site } from '../../../src/features/sites/site.model.ts';
import {
  databaseAppError,
  isDatabaseAway,
  NotPrimaryError,
} from '../../../src/platform/db/database-errors.ts';
import { openPool, type Db } from '../../../src/platform/db/pool.ts';

import { type Tx, withSystem, withTenant, runPrepared } from '../../../src/platform/db/transaction.ts';
import type { TenantScope } from '../../../src/platform/db/tenant-scope.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

const SYSTEM: TenantScope = {
  scope: 'system',
  userId: null,
  partnerId: null,
  orgAccess: 'all',
  orgIds: [],
};

describe('a database that is lost in the middle of work', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let db: Db;

  before(async () => {
    database = await createTestDatabase();
    const url = new URL(database.appUrl);
    proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
    url.hostname = '127.0.0.1';
    url.port = String(proxy.port);
    db = openPool(url.href, { max: 2, name: 'database-errors', acquireMs: 500 });
  });
  after(async () => {
    await db.destroy();
    await proxy.cut();
    await database.drop();
  });

  /** What `work` answers where the connection is cut while it runs. */
  async function answerOf(work: (cut: () => Promise<void>) => Promise<unknown>): Promise<string | undefined> {
    try {
      await work(() => proxy.cut());
      return 'nothing failed';
    } catch (error) {
      const known = databaseAppError(error);
      return known?.code ?? `not known: ${String(error)}`;
    } finally {
      await proxy.mend();
    }
  }

  const cases: [string, (cut: () => Promise<void>) => Promise<unknown>][] = [
    [
      'between two statements',
      (cut) =>
        withTenant(db, SYSTEM, async (tx) => {
          await tx.raw('select 1');
          await cut();
          return tx.raw('select 1');
        }),
    ],
    [
      'a moment after the connection has ended',
      (cut) =>
        withTenant(db, SYSTEM, async (tx) => {
          await cut();
          await new Promise((resolve) => setTimeout(resolve, 50));
          return tx.raw('select 1');
        }),
    ],
    [
      'while a statement runs',
      (cut) => withSystem(db, 'a test', async (tx) => Promise.all([tx.raw('select pg_sleep(5)'), cut()])),
    ],
    [
      'while Objection runs a statement',
      (cut) =>
        withSystem(db, 'a test', async (tx) =>
          Promise.all([Site.query(tx).whereRaw('pg_sleep(5) is null'), tx.raw('select pg_sleep(5)'), cut()]),
        ),
    ],
    [
      'between two statements of Objection',
      (cut) =>
        withSystem(db, 'a test', async (tx) => {
          await cut();
          return Site.query(tx);
        }),
    ],
    [
      'before a prepared statement',
      (cut) =>
        withSystem(db, 'a test', async (tx) => {
          await cut();
          return runPrepared(tx, { name: 'cut', text: 'select 1' }, []);
        }),
    ],
    [
      'before the transaction begins',
      async (cut) => cut().then(() => withSystem(db, 'a test', (tx) => tx.raw('select 1'))),
    ],
    ['before the commit', (cut) => withSystem(db, 'a test', async (tx) => tx.raw('select 1').then(cut))],
    [
      'while nobody answers the attempt to connect',
      async (cut) => {
        await cut();
        await proxy.mend();
        proxy.swallowNew(true);
        try {
          await withSystem(db, 'a test', (tx) => tx.raw('select 1'));
        } finally {
          proxy.swallowNew(false);
          await proxy.cut();
        }
      },
    ],
  ];
  for (const [when, work] of cases) {
    it(`is answered as unavailable: ${when}`, async () => {
      expect(await answerOf(work)).to.equal('unavailable');
    });
  }

  it('is known by each message that the driver gives no code', () => {
    for (const message of [
      'Connection terminated',
      'Connection terminated unexpectedly',
      'Client has encountered a connection error and is not queryable',
      'Client was closed and is not queryable',
      'timeout expired',
      'Query read timeout',
    ]) {
      expect(databaseAppError(new Error(message))?.code, message).to.equal('unavailable');
      const wrapped = Object.assign(new Error('wrapped'), { nativeError: new Error(message) });
      expect(databaseAppError(wrapped)?.code, `${message}, wrapped`).to.equal('unavailable');
    }
  });

  it('is known by what the system calls it', () => {
    for (const code of ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH']) {
      expect(databaseAppError(Object.assign(new Error('x'), { code }))?.code, code).to.equal('unavailable');
    }
  });

  it('is known by what Postgres says while it ends, starts, or takes no writes', () => {
    for (const code of ['57P01', '57P02', '57P03', '08006', '08P01', '53300', '25006']) {
      const error = Object.assign(new pg.DatabaseError('x', 1, 'error'), { code });
      expect(databaseAppError(error)?.status, code).to.equal(503);
      expect(isDatabaseAway(error), code).to.equal(true);
    }
    expect(databaseAppError(new NotPrimaryError('It is a standby.'))?.message).to.equal(
      'The database takes no writes at the moment. Try again.',
    );
    expect(isDatabaseAway(new Error('timeout expired'))).to.equal(true);
    expect(isDatabaseAway(new Error('something else'))).to.equal(false);
  });

  it('is not seen where a transaction of ours that only reads tries to write: that is a fault', async () => {
    const write = (tx: Tx) => tx.raw('create table written ()');
    const failure: unknown = await withTenant(db, SYSTEM, write, { readOnly: true }).catch(
      (error: unknown) => error,
    );
    expect(failure)
      .to.be.an('error')
      .with.property('message', 'A transaction that only reads has tried to write.');
    expect([databaseAppError(failure), isDatabaseAway(failure)]).to.deep.equal([undefined, false]);
  });

  it('is not seen in failures of other kinds', () => {
    const notNull = Object.assign(new pg.DatabaseError('null value', 1, 'error'), { code: '23502' });
    for (const error of [new Error('x'), new TypeError('timeout'), notNull, undefined, 'ECONNRESET']) {
      expect(databaseAppError(error)).to.equal(undefined);
    }
  });
});
