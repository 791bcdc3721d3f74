import { expect } from 'chai';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { readConfig } from '../../../src/config.ts';
import { PendingMigrationsError } from '../../../src/platform/db/database.ts';
import { startEmbeddedPostgres } from '../../../src/platform/db/embedded/index.ts';
import {
  BlockedMigrationError,
  type LockPatience,
  EditedMigrationError,
  migrate,
  MIGRATIONS_DIR,
} from '../../../src/platform/db/migrations.ts';
import { openSession } from '../../../src/platform/db/pool.ts';
import { startServer } from '../../../src/server.ts';
import { startFailureText } from '../../../src/start-failure.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../support/factories.ts';
import { quietLog } from '../../support/quiet-log.ts';
import { createTestApp } from '../../support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

const released = async () => (await readdir(MIGRATIONS_DIR)).filter((name) => name.endsWith('.sql')).sort();

async function fails(work: Promise<unknown>): Promise<Error> {
  try {
    await work;
  } catch (error) {
    return error as Error;
  }
  throw new Error('it did not fail');
}

describe('migrations', () => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await createTestDatabase({ migrated: false });
  });
  afterEach(() => database.drop());

  const owner = <Row extends pg.QueryResultRow>(sql: string, values?: unknown[]) =>
    asOwner<Row>(database.ownerUrl, sql, values);
  const recorded = () =>
    owner<{ name: string; sha256: string }>(
      'select name, sha256 from muster_migration_checksums order by name',
    );
  const start = (env: Record<string, string> = {}) =>
    startServer({
      config: readConfig({ environment: { PORT: '0', ...env } }),
      database,
      jwtSecret: 'a-secret-that-only-tests-sign-with',
      secretKeys: { current: 'a-key-that-only-tests-seal-with', old: [] },
      log: quietLog,
    });
  const startAndClose = async (env?: Record<string, string>) => (await start(env)).close();

  /** Applies a folder, as a server does at start. */
  async function apply(directory = MIGRATIONS_DIR, patience?: LockPatience): Promise<string[]> {
    const session = openSession(database.ownerUrl, 'test-migrate');
    const lockSession = openSession(database.ownerUrl, 'test-migrate-lock');
    try {
      return await migrate(session, lockSession, { directory, patience });
    } finally {
      await session.destroy();
      await lockSession.destroy();
    }
  }

  describe('at start', () => {
    it('fill an empty database, and each file is recorded with its SHA-256', async () => {
      await startAndClose();
      const expected = await Promise.all(
        (await released()).map(async (name) => ({
          name,
          sha256: createHash('sha256')
            .update(await readFile(path.join(MIGRATIONS_DIR, name)))
            .digest('hex'),
        })),
      );
      expect(await recorded()).to.deep.equal(expected);
      const knex = await owner<{ name: string }>('select name from knex_migrations order by id');
      expect(knex.map(({ name }) => name)).to.deep.equal(await released());
    });

    it('apply nothing the second time', async () => {
      await startAndClose();
      const before = await owner('select * from muster_migration_checksums order by name');
      await startAndClose();
      expect(await apply()).to.deep.equal([]);
      expect(await owner('select * from muster_migration_checksums order by name')).to.deep.equal(before);
    });

    it('are each applied once when several servers start on one empty database', async () => {
      const starts = await Promise.allSettled(Array.from({ length: 3 }, () => start()));
      for (const started of starts) {
        if (started.status === 'fulfilled') await started.value.close();
      }
      expect(
        starts.flatMap((started) => (started.status === 'rejected' ? [String(started.reason)] : [])),
      ).to.deep.equal([]);
      const knex = await owner<{ name: string }>('select name from knex_migrations order by id');
      expect(knex.map(({ name }) => name)).to.deep.equal(await released());
      expect(await owner('select is_locked from knex_migrations_lock')).to.deep.equal([{ is_locked: 0 }]);
    });

    it('are not applied with AUTO_MIGRATE=false: the start is refused and names what is pending', async () => {
      const empty = await fails(start({ AUTO_MIGRATE: 'false' }));
      expect(empty).to.be.instanceOf(PendingMigrationsError);
      for (const name of await released()) expect(empty.message).to.include(name);
      expect(startFailureText(empty)).to.include('npx knex migrate:latest').and.include('AUTO_MIGRATE=true');
      const [tables] = await owner<{ count: string }>(
        `select count(*) from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`,
      );
      expect(tables?.count).to.equal('0');

      await apply();
      await startAndClose({ AUTO_MIGRATE: 'false' });
    });
  });

  describe('in a folder that changes', () => {
    let directory: string;
    beforeEach(async () => {
      // With all that is released applied already.
      await database.drop();
      database = await createTestDatabase();
      directory = await mkdtemp(path.join(tmpdir(), 'muster-migrations-'));
      await cp(MIGRATIONS_DIR, directory, { recursive: true });
    });
    afterEach(() => rm(directory, { recursive: true }));
    const file = (name: string) => path.join(directory, name);

    it('stop when an applied file was edited or removed, and name each', async () => {
      const [first, second] = await released();
      const text = await readFile(file(first!), 'utf8');
      await writeFile(file(first!), `${text}\n-- one more line`);
      await rm(file(second!));
      const error = await fails(apply(directory));
      expect(error).to.be.instanceOf(EditedMigrationError);
      expect((error as EditedMigrationError).files).to.deep.equal([first, second]);
      expect(error.message).to.include(first).and.include(second);

      await cp(MIGRATIONS_DIR, directory, { recursive: true });
      expect(await apply(directory)).to.deep.equal([]);
    });

    it('let an earlier release start on the schema of a later one, and that one go on', async () => {
      await writeFile(file('9001_later.sql'), 'alter table sites add column later text');
      await apply(directory);
      expect(await apply()).to.deep.equal([]);
      await startAndClose({ AUTO_MIGRATE: 'true' });
      await startAndClose({ AUTO_MIGRATE: 'false' });
      await writeFile(file('9002_even_later.sql'), 'alter table sites add column even_later text');
      expect(await apply(directory)).to.deep.equal(['9002_even_later.sql']);
    });

    it('stop before anything new is applied when an older file was edited', async () => {
      const [first] = await released();
      await writeFile(file(first!), 'select 1');
      await writeFile(file('9001_new.sql'), 'create table brand_new (id int)');
      expect(await fails(apply(directory))).to.be.instanceOf(EditedMigrationError);
      expect(await owner(`select to_regclass('brand_new') as found`)).to.deep.equal([{ found: null }]);
    });

    it('refuse a database whose applied migrations are not the first ones of the release, and say so', async () => {
      await database.drop();
      database = await createTestDatabase({ migrated: false });
      const others = await mkdtemp(path.join(tmpdir(), 'muster-other-migrations-'));
      try {
        const names = [
          '0001_isolation.sql',
          '0002_first.sql',
          '0003_second.sql',
          '0004_third.sql',
          '9001_last.sql',
        ];
        const readable = 'grant select on muster_migration_checksums to svc_app';
        for (const name of names) await writeFile(path.join(others, name), readable);
        expect(await apply(others)).to.deep.equal(names);
      } finally {
        await rm(others, { recursive: true });
      }
      for (const AUTO_MIGRATE of ['true', 'false']) {
        const error = await fails(start({ AUTO_MIGRATE }));
        expect(error).to.be.instanceOf(EditedMigrationError);
        expect(startFailureText(error)).to.equal(
          'This database was created by other migrations than those of this release: 0001_isolation.sql, ' +
            '0002_first.sql, 0003_second.sql and 1 more were applied to it, and this release does not have these files or ' +
            'has others under their names. A database of a version before the first release cannot be upgraded: use an ' +
            'empty one. Otherwise restore the files as they were released.',
        );
      }
      expect(await owner(`select to_regclass('partners') as found`)).to.deep.equal([{ found: null }]);
    });

    it('are not stopped by the lock that a killed Knex has left', async () => {
      await owner('update knex_migrations_lock set is_locked = 1');
      await writeFile(file('9001_new.sql'), 'create table brand_new (id int)');
      expect(await apply(directory)).to.deep.equal(['9001_new.sql']);
    });

    it('stop a server that does not migrate itself, too', async () => {
      const [first] = await released();
      await owner(`update muster_migration_checksums set sha256 = repeat('0', 64) where name = $1`, [first]);
      const error = await fails(start({ AUTO_MIGRATE: 'false' }));
      expect(error).to.be.instanceOf(EditedMigrationError);
      expect(error.message).to.include(first);
    });

    it('go back wholly when one fails, keep those before it, and go on with it at the next start', async () => {
      await writeFile(file('9001_good.sql'), 'create table whole (id int)');
      await writeFile(file('9002_bad.sql'), 'create table other_half (id int); select 1 / 0');
      expect((await fails(apply(directory))).message).to.include('division by zero');
      expect(
        await owner(`select to_regclass('whole')::text as whole, to_regclass('other_half') as half`),
      ).to.deep.equal([{ whole: 'whole', half: null }]);
      const applied = [...(await released()), '9001_good.sql'];
      expect((await recorded()).map(({ name }) => name)).to.deep.equal(applied);

      await writeFile(file('9002_bad.sql'), 'create table other_half (id int)');
      expect(await apply(directory)).to.deep.equal(['9002_bad.sql']);
    });

    it('take question marks and several statements as they stand', async () => {
      await writeFile(
        file('9001_marks.sql'),
        `create table marks (body text); insert into marks values ('who? ?? \\? $1'), (($$a?$$));
         select '{"a":1}'::jsonb ? 'a';`,
      );
      await apply(directory);
      const rows = await owner<{ body: string }>('select body from marks');
      expect(rows.map(({ body }) => body)).to.deep.equal(['who? ?? \\? $1', 'a?']);
    });

    it('take no notice of other files', async () => {
      for (const name of ['README.md', '0001.sql', '9001_draft.sql~', '.9001_hidden.sql']) {
        await writeFile(file(name), 'this is not SQL');
      }
      await writeFile(file('9002_taken.sql'), 'select 1');
      expect(await apply(directory)).to.deep.equal(['9002_taken.sql']);
    });
  });

  describe('and other sessions', () => {
    const PATIENCE = { lockTimeoutMs: 200, pauseMs: 50, maxPauseMs: 100, attempts: 200 };
    let directory: string;
    beforeEach(async () => {
      directory = await mkdtemp(path.join(tmpdir(), 'muster-migrations-'));
      await owner(`create table busy (id int primary key, note text)`);
      await owner(`insert into busy select n, 'n' || n from generate_series(1, 100) n`);
    });
    afterEach(() => rm(directory, { recursive: true }));
    const write = (name: string, sql: string) => writeFile(path.join(directory, name), sql);

    /** A transaction that has read from `busy` and stays open until the test ends it. */
    async function longRead() {
      const session = openSession(database.ownerUrl, 'test-long-read');
      const transaction = await session.transaction();
      await transaction.raw('select count(*) from busy');
      return async () => {
        await transaction.rollback();
        await session.destroy();
      };
    }

    it('do not queue behind a long read: others read and write while it waits, and it is applied afterwards', async () => {
      await write('9001_column.sql', 'alter table busy add column more int');
      const end = await longRead();
      let isApplied = false;
      const applied = apply(directory, PATIENCE).finally(() => (isApplied = true));
      let slowest = 0;
      try {
        await eventually(
          () =>
            owner(`select 1 from pg_locks where mode = 'AccessExclusiveLock' and not granted
            and relation = 'busy'::regclass`),
          (waiting) => waiting.length === 1,
        );
        for (let n = 0; n < 10; n++) {
          const startedAt = performance.now();
          await owner(`update busy set note = note || '.' where id = ${n + 1}`);
          slowest = Math.max(slowest, performance.now() - startedAt);
        }
        expect(isApplied).to.equal(false);
      } finally {
        await end();
      }
      expect(await applied).to.deep.equal(['9001_column.sql']);
      // Without a limit each of them would have waited until the read had ended.
      expect(slowest).to.be.lessThan(20_000);
      expect((await recorded()).map(({ name }) => name)).to.deep.equal(['9001_column.sql']);
    });

    it('give up after so many attempts with an error that names the file, and leave nothing behind', async () => {
      await write('9001_two.sql', 'create table first_half (id int); alter table busy add column more int');
      const end = await longRead();
      try {
        const error = await fails(apply(directory, { ...PATIENCE, lockTimeoutMs: 20, attempts: 3 }));
        expect(error).to.be.instanceOf(BlockedMigrationError);
        expect(startFailureText(error)).to.include('9001_two.sql').and.include('pg_stat_activity');
      } finally {
        await end();
      }
      expect(await owner(`select to_regclass('first_half') as found`)).to.deep.equal([{ found: null }]);
      expect(await apply(directory, PATIENCE)).to.deep.equal(['9001_two.sql']);
    });

    it('build an index online: no statement waits for it, and it is recorded when it exists', async () => {
      await write(
        '9001_online.sql',
        '-- online\n-- Why.\ncreate index concurrently if not exists busy_by_note\n  on busy (note);\n',
      );
      const writer = openSession(database.ownerUrl, 'test-writer');
      const transaction = await writer.transaction();
      // It waits for this transaction to end, and others do not wait for it.
      await transaction.raw(`update busy set note = 'mine' where id = 1`);
      const applied = apply(directory, PATIENCE);
      try {
        await eventually(
          () => owner(`select 1 from pg_stat_progress_create_index where datname = current_database()`),
          (building) => building.length === 1,
        );
        await owner(`update busy set note = 'theirs' where id = 2`);
        expect(await recorded()).to.deep.equal([]);
      } finally {
        await transaction.commit();
        await writer.destroy();
      }
      expect(await applied).to.deep.equal(['9001_online.sql']);
      expect((await recorded()).map(({ name }) => name)).to.deep.equal(['9001_online.sql']);
      expect(
        await owner(`select indisvalid as ok from pg_index where indexrelid = 'busy_by_note'::regclass`),
      ).to.deep.equal([{ ok: true }]);
    });

    it('finish online what an interrupted run has left: an invalid index is built again', async () => {
      await owner(`insert into busy values (1001, 'n1')`);
      await fails(owner('create unique index concurrently busy_by_note on busy (note)'));
      expect(
        await owner(`select indisvalid as ok from pg_index where indexrelid = 'busy_by_note'::regclass`),
      ).to.deep.equal([{ ok: false }]);
      await owner('delete from busy where id = 1001');
      await write(
        '9001_online.sql',
        `-- online
        create index concurrently if not exists busy_by_id on busy (id, note);
        create unique index concurrently if not exists busy_by_note on busy (note);`,
      );
      expect(await apply(directory, PATIENCE)).to.deep.equal(['9001_online.sql']);
      expect(
        await owner(`select bool_and(indisvalid) as ok, count(*)::int as n from pg_index
          where indexrelid in ('busy_by_note'::regclass, 'busy_by_id'::regclass)`),
      ).to.deep.equal([{ ok: true, n: 2 }]);
    });

    it('are not recorded while an online one is half done, and it goes on from there', async () => {
      await owner(`insert into busy values (1001, 'n1')`);
      await write(
        '9001_online.sql',
        `-- online
        create index concurrently if not exists busy_by_id on busy (id, note);
        create unique index concurrently if not exists busy_by_note on busy (note);`,
      );
      expect((await fails(apply(directory, PATIENCE))).message).to.include('could not create unique index');
      expect(await recorded()).to.deep.equal([]);
      await owner('delete from busy where id = 1001');
      expect(await apply(directory, PATIENCE)).to.deep.equal(['9001_online.sql']);
    });

    it('refuse online what could block others or could not be run again', async () => {
      for (const wrong of [
        'create index busy_by_note on busy (note)',
        'alter table busy add column more int',
        'delete from busy',
      ]) {
        await write('9001_online.sql', `-- online\n${wrong};`);
        const { message } = await fails(apply(directory, PATIENCE));
        expect(message).to.include('9001_online.sql').and.include(wrong);
      }
    });

    it('are not applied again if a process was killed before Knex had noted one', async () => {
      await write('9001_column.sql', 'alter table busy add column more int');
      await apply(directory, PATIENCE);
      await owner('delete from knex_migrations');
      expect(await apply(directory, PATIENCE)).to.deep.equal(['9001_column.sql']);
      expect(await apply(directory, PATIENCE)).to.deep.equal([]);
    });

    it('let a second server wait for the first without holding an index build up', async () => {
      await write(
        '9001_online.sql',
        '-- online\ncreate index concurrently if not exists busy_by_note on busy (note);',
      );
      const end = await longRead();
      const both = Promise.all([apply(directory, PATIENCE), apply(directory, PATIENCE)]);
      await end();
      expect((await both).flat()).to.deep.equal(['9001_online.sql']);
    });
  });

  describe('by the Knex command line', () => {
    const knex = (...args: string[]) => {
      const child = spawn('npx', ['knex', ...args], {
        cwd: ROOT,
        env: {
          PATH: process.env['PATH'],
          HOME: process.env['HOME'],
          NODE_OPTIONS: '--import tsx',
          DATABASE_URL: database.ownerUrl,
        },
      });
      let output = '';
      const hear = (chunk: Buffer) => void (output += chunk.toString('utf8'));
      child.stdout.on('data', hear);
      child.stderr.on('data', hear);
      const ended = new Promise<{ code: number | null; output: string }>((resolve) => {
        child.on('close', (code) => resolve({ code, output }));
      });
      return { ended, stop: () => void child.kill() };
    };

    it('are applied and listed, and a server is content with them', async () => {
      const latest = await knex('migrate:latest').ended;
      expect(latest.code, latest.output).to.equal(0);
      expect(latest.output).to.include(`${(await released()).length} migrations`);
      expect((await recorded()).map(({ name }) => name)).to.deep.equal(await released());

      const status = await knex('migrate:status').ended;
      expect(status.code, status.output).to.equal(0);
      expect(status.output).to.include('No Pending Migration files Found');
      for (const name of await released()) expect(status.output).to.include(name);
      await startAndClose({ AUTO_MIGRATE: 'false' });
    });

    it('wait while someone else migrates', async () => {
      const other = openSession(database.ownerUrl, 'test-other');
      await other.raw('select pg_advisory_lock(1836413812)');
      const latest = knex('migrate:latest');
      try {
        await eventually(
          () =>
            owner(`select 1 from pg_stat_activity where application_name = 'knex-migrate-lock'
            and query like '%pg_try_advisory_lock%' and datname = current_database()`),
          (waiting) => waiting.length === 1,
        );
        expect(await owner(`select to_regclass('partners') as found`)).to.deep.equal([{ found: null }]);
      } finally {
        await other.destroy();
      }
      const { code, output } = await latest.ended;
      expect(code, output).to.equal(0);
      expect((await recorded()).length).to.equal((await released()).length);
    });

    it('refuse to go back, and leave all as it is', async () => {
      await apply();
      const down = await knex('migrate:rollback').ended;
      expect(down.code).to.equal(1);
      expect(down.output).to.include('forward only');
      expect((await recorded()).length).to.equal((await released()).length);
    });
  });
});

/**
 * On a managed Postgres nobody is a superuser: the owner may create roles and databases, and no more. Roles belong
 * to a whole cluster, and the user who creates one may grant it, so this needs a cluster without our roles.
 */
describe('migrations of an owner who is no superuser', () => {
  let dataDir: string;
  let postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>;
  before(async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-managed-'));
    await chmod(dataDir, 0o711);
    postgres = await startEmbeddedPostgres({ dataDir, log: quietLog, durable: false });
    await asOwner(postgres.ownerUrl, `create role managed login createrole createdb password 'managed'`);
  });
  after(async () => {
    await postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  });

  async function ownedBy(role: string, name: string): Promise<TestDatabase> {
    await asOwner(postgres.ownerUrl, `create database ${name} owner ${role}`);
    const url = (user: string, password: string) =>
      `postgres://${user}:${password}@${postgres.host}:${postgres.port}/${name}`;
    return { ownerUrl: url(role, role), appUrl: url('svc_app', 'app-password'), drop: async () => {} };
  }

  it('make the roles, and the server they leave behind works', async () => {
    const app = await createTestApp({ database: await ownedBy('managed', 'first') });
    try {
      const tenant = await buildTenant(app);
      const device = await buildDevice(app, tenant.orgId);
      const seen = await app.call('GET', `/devices/${device.deviceId}`, { token: tenant.admin.token });
      expect([seen.status, seen.body.id]).to.deep.equal([200, device.deviceId]);
    } finally {
      await app.close();
    }
  });

  it('need the administrator first if another owner made the roles', async () => {
    await asOwner(postgres.ownerUrl, `create role other login createrole password 'other'`);
    const database = await ownedBy('other', 'third');
    const refused = await fails(createTestApp({ database }));
    expect(refused.message).to.include('permission denied to grant role "svc_system"');

    await asOwner(postgres.ownerUrl, 'grant svc_app, svc_system to other with admin option');
    const app = await createTestApp({ database });
    await app.close();
  });

  it('go on if the same owner has another Muster database on the cluster', async () => {
    const app = await createTestApp({ database: await ownedBy('managed', 'second') });
    await app.close();
  });
});
