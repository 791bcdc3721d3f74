import { expect } from 'chai';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassphraseError } from '../../../../src/cli/installation-backup/manifest.ts';
import { ArchiveError, bytesOf, readArchive } from '../../../../src/cli/installation-backup/archive.ts';
import {
  restoreBackup,
  RestoreRefused,
  SEEDED_ROWS,
} from '../../../../src/cli/installation-backup/restore-backup.ts';
import { type VerifiedBackup, verifyBackup } from '../../../../src/cli/installation-backup/verify-backup.ts';
import { writeBackup } from '../../../../src/cli/installation-backup/run-backup.ts';
import { readConfig } from '../../../../src/config.ts';
import { encodeTarHeader, TAR_BLOCK, TAR_END, tarPaddingOf } from '../../../../src/engine/index.ts';
import { readTables, usedTables } from '../../../../src/platform/db/dump.ts';
import { migrate } from '../../../../src/platform/db/migrations.ts';
import { openSession } from '../../../../src/platform/db/pool.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { startOperatorProgram } from '../../../support/muster-program.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { environmentOf, runMuster } from '../../../support/run-muster.ts';
import { mountSmallDisk, needsSmallDisk } from '../../../support/small-disk.ts';
import { createTestApp, TEST_ENCRYPTION_KEY, type TestApp } from '../../../support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

const PASSPHRASE = 'correct horse battery staple';

interface RestoreChange {
  replace?: boolean;
  env?: Record<string, string>;
  dataDir?: string;
}

describe('a backup of Muster, when something goes wrong', function () {
  this.timeout(180_000);
  let app: TestApp;
  let folder: string;
  let backup: string;
  const databases: TestDatabase[] = [];
  let whole: Promise<VerifiedBackup> | undefined;
  // A passphrase costs half a second each time.
  const verified = () => (whole ??= verifyBackup(backup, PASSPHRASE));

  const configOf = (database: TestDatabase, dataDir: string, env: Record<string, string> = {}) =>
    readConfig({ environment: environmentFor(database, dataDir, env) });
  const environmentFor = (database: TestDatabase, dataDir: string, env: Record<string, string> = {}) => ({
    ...environmentOf(database, dataDir),
    ...env,
  });
  const emptyDatabase = async () => {
    const database = await createTestDatabase({ migrated: false });
    databases.push(database);
    return database;
  };
  const newFolder = () => mkdtemp(path.join(folder, 'data-'));
  const access = async () => {
    const dataDir = path.join(folder, 'source');
    return {
      config: configOf(app.database, dataDir),
      log: quietLog,
      database: app.database,
      jwtSecret: app.jwtSecret,
      secretKeys: { current: TEST_ENCRYPTION_KEY, old: [] },
    };
  };
  const restore = async (
    database: TestDatabase,
    { replace = false, env = {}, dataDir = '' }: RestoreChange = {},
  ) =>
    restoreBackup({
      file: backup,
      ...(await verified()),
      replace,
      config: configOf(database, dataDir === '' ? await newFolder() : dataDir, env),
      log: quietLog,
      onStep: () => {},
    });
  /** Every row of every table, so that two databases can be compared. */
  const digests = async (url: string) => {
    const db = openSession(url, 'test');
    try {
      const sums: Record<string, string> = {};
      for (const { name, columns } of await readTables(db)) {
        const row = columns.map((column) => `t."${column}"`).join(', ');
        const { rows } = await db.raw(
          `select count(*) || ' ' || coalesce(md5(string_agg(x, '|' order by x)), '') as sum
          from (select row(${row})::text as x from "${name}" t) rows`,
        );
        sums[name] = rows[0].sum;
      }
      return sums;
    } finally {
      await db.destroy();
    }
  };
  const used = async (url: string) => {
    const db = openSession(url, 'test');
    try {
      return await usedTables(db, SEEDED_ROWS);
    } finally {
      await db.destroy();
    }
  };
  const rejection = async (work: Promise<unknown>): Promise<Error> =>
    work.then(
      () => Promise.reject(new Error('it was accepted')),
      (error: Error) => error,
    );

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-backup-faults-'));
    backup = path.join(folder, 'muster.backup');
    await mkdir(path.join(folder, 'source', 'releases'), { recursive: true });
    const release = randomBytes(900_000);
    const name = createHash('sha256').update(release).digest('hex');
    await writeFile(path.join(folder, 'source', 'releases', name), release);
    const repository = path.join(folder, 'source', 'backups', '01900000-0000-7000-8000-0000000000aa');
    await mkdir(path.join(repository, 'data', 'ab'), { recursive: true });
    await writeFile(path.join(repository, 'config'), 'config');
    await writeFile(path.join(repository, 'data', 'ab', `ab${'0'.repeat(62)}`), randomBytes(70_000));
    app = await createTestApp();
    const tenant = await buildTenant(app);
    const { deviceId } = await buildDevice(app, tenant.orgId);
    // Every sign that COPY writes in another way, and enough rows for several pieces of a table.
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx.raw(
        `insert into diagnostic_logs (id, org_id, device_id, level, message, "timestamp", component)
        select gen_random_uuid(), ?, ?, 'info', repeat(md5(n::text), 8) || E'\\t\\\\N\\n\\r "quoted" é 漢', now(), 'test'
        from generate_series(1, 30000) n`,
        [tenant.orgId, deviceId],
      ),
    );
    await app.server.chainWriter.flush();
    await app.server.close();
    await writeBackup(await access(), {
      file: backup,
      passphrase: PASSPHRASE,
      withStore: true,
      environment: {},
    });
  });
  after(async () => {
    for (const database of databases) await database.drop();
    await app.database.drop();
    await rm(folder, { recursive: true, force: true });
  });

  it('is restored row by row with the rights of an owner who is no superuser', async () => {
    const database = await emptyDatabase();
    const role = `owner_${process.pid}_${Date.now()}`;
    const name = new URL(database.ownerUrl).pathname.slice(1);
    const superuser = new URL(database.ownerUrl);
    await asOwner(superuser.href, `create role ${role} login createrole password 'only-for-tests'`);
    await asOwner(
      superuser.href,
      `grant svc_app, svc_system, svc_audit_admin to ${role} with admin option; alter database ${name} owner to ${role}`,
    );
    const owner = new URL(database.ownerUrl);
    [owner.username, owner.password] = [role, 'only-for-tests'];
    const before = await digests(app.database.ownerUrl);
    const dataDir = await newFolder();
    expect(await restore({ ...database, ownerUrl: owner.href }, { dataDir })).to.deep.equal({
      database: 'restored',
    });
    const after = await digests(superuser.href);
    // The restore itself is recorded, as the backup was after its snapshot, and it ends all sessions.
    for (const sums of [before, after]) {
      delete sums['audit_outbox'];
      delete sums['sessions'];
    }
    expect(after).to.deep.equal(before);
    expect(
      await readdir(path.join(dataDir, 'backups', '01900000-0000-7000-8000-0000000000aa')),
    ).to.have.members(['config', 'data']);
    const unforced = await asOwner(
      superuser.href,
      `select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
        and not relforcerowsecurity and relname !~ '^(knex|muster)_'
      union all select tgname from pg_trigger where tgenabled = 'D'
      union all select conname from pg_constraint where contype = 'f' and not convalidated`,
    );
    expect(unforced).to.deep.equal([]);
    const keys = `select conrelid::regclass::text || ' ' || conname || ' ' || pg_get_constraintdef(oid) as key
      from pg_constraint where contype = 'f' order by oid`;
    expect(await asOwner(superuser.href, keys)).to.deep.equal(await asOwner(app.database.ownerUrl, keys));
    const refusal = await rejection(restore({ ...database, ownerUrl: app.database.ownerUrl }));
    expect(refusal.message).to.contain('The database is not empty');
  });

  it('is refused when it was cut off, changed, or is something else', async () => {
    const whole = await readFile(backup);
    const copy = path.join(folder, 'copy');
    const faultOf = async (bytes: Buffer, passphrase?: string) => {
      await writeFile(copy, bytes);
      return rejection(verifyBackup(copy, passphrase));
    };
    for (const length of [
      0,
      100,
      TAR_BLOCK,
      5000,
      whole.length >> 1,
      whole.length - TAR_BLOCK,
      whole.length - 1,
    ]) {
      const fault = await faultOf(whole.subarray(0, length));
      expect(fault, `${length}: ${fault.stack}`).to.be.instanceOf(ArchiveError);
    }
    expect(await faultOf(Buffer.concat([whole, Buffer.from('x')]))).to.be.instanceOf(ArchiveError);
    expect(await faultOf(randomBytes(3000))).to.be.instanceOf(ArchiveError);
    // One byte of each entry, in its header and in its body.
    const places: number[] = [];
    let at = 0;
    let manifestAt = Number.POSITIVE_INFINITY;
    for await (const { name, size } of readArchive(backup)) {
      if (name === 'manifest.json') manifestAt = at;
      places.push(at + 20, ...(size > 0 ? [at + TAR_BLOCK + (size >> 1)] : []));
      at += TAR_BLOCK + size + tarPaddingOf(size);
    }
    expect(places.length).to.be.greaterThan(50);
    // Most entries are pieces of tables, which are alike.
    const some = places.filter((_place, i) => i < 8 || i > places.length - 12 || i % 5 === 0);
    for (const place of some) {
      const bytes = Buffer.from(whole);
      bytes[place] = (bytes[place] ?? 0) ^ 0x04;
      // The manifest has the sums of all entries before it, and its own code is checked with the passphrase.
      const fault = await faultOf(bytes, place > manifestAt ? PASSPHRASE : undefined);
      expect(fault, `${place}: ${fault.stack}`).to.satisfy(
        (error: Error) => error instanceof ArchiveError || error instanceof PassphraseError,
      );
    }
  });

  it('is refused with another passphrase, and when its manifest was written by another person', async () => {
    expect(await rejection(verifyBackup(backup, 'another passphrase'))).to.be.instanceOf(PassphraseError);
    expect(await rejection(verifyBackup(backup, 'short'))).to.be.instanceOf(PassphraseError);
    // Every sum fits, but nobody without the passphrase can write the code of the manifest.
    const parts: Buffer[] = [];
    for await (const entry of readArchive(backup)) {
      let bytes = await bytesOf(entry, 1 << 30);
      if (entry.name === 'manifest.json') {
        bytes = Buffer.from(bytes.toString().replace('"release":"', '"release":"9'));
      }
      parts.push(
        encodeTarHeader({ path: entry.name, type: 'file', size: bytes.length }),
        bytes,
        Buffer.alloc(tarPaddingOf(bytes.length)),
      );
    }
    const forged = path.join(folder, 'forged');
    await writeFile(forged, Buffer.concat([...parts, TAR_END]));
    expect((await verifyBackup(forged, undefined)).manifest.release).to.match(/^9/);
    expect((await rejection(verifyBackup(forged, PASSPHRASE))).message).to.contain('do not use this file');
  });

  it('says which key is missing, and restores nothing without it', async () => {
    const database = await emptyDatabase();
    const other = { SECRET_ENCRYPTION_KEY: 'another-key-of-another-installation' };
    const refusal = await rejection(restore(database, { env: other }));
    expect(refusal).to.be.instanceOf(RestoreRefused);
    expect(refusal.message).to.contain('SECRET_ENCRYPTION_KEY is another key');
    const withoutKeys = path.join(folder, 'without-keys');
    await writeBackup(await access(), {
      file: withoutKeys,
      passphrase: undefined,
      withStore: false,
      environment: {},
    });
    const { manifest, keys } = await verifyBackup(withoutKeys, undefined);
    expect(keys).to.equal(undefined);
    const embedded = readConfig({ environment: { DATA_DIR: await newFolder() } });
    const refused = await rejection(
      restoreBackup({
        file: withoutKeys,
        manifest,
        keys,
        replace: false,
        config: embedded,
        log: quietLog,
        onStep: () => {},
      }),
    );
    expect(refused.message).to.contain('holds no keys');
    expect(
      await asOwner(database.ownerUrl, `select from pg_tables where schemaname = 'public'`),
    ).to.have.length(0);
  });

  it('is not restored to a program that does not know its schema, nor beside a running server', async () => {
    const database = await emptyDatabase();
    const known = await verified();
    const later = { name: '9999_later.sql', sha256: '0'.repeat(64) };
    const manifest = { ...known.manifest, schema: [...known.manifest.schema, later] };
    const choice = {
      file: backup,
      replace: false,
      config: configOf(database, await newFolder()),
      log: quietLog,
    };
    const refusal = await rejection(restoreBackup({ ...choice, ...known, manifest, onStep: () => {} }));
    expect(refusal.message).to.contain('the migration 9999_later.sql, which this release does not have');
    const [first, ...others] = manifest.schema;
    const edited = { ...manifest, schema: [{ ...first!, sha256: '0'.repeat(64) }, ...others] };
    const other = await rejection(restoreBackup({ ...choice, ...known, manifest: edited, onStep: () => {} }));
    expect(other.message).to.contain(`migration ${first!.name} is not the one of this release`);
    const server = openSession(database.appUrl, 'muster-notifications');
    try {
      await server.raw('select 1');
      expect((await rejection(restore(database))).message).to.contain('A Muster server is connected');
    } finally {
      await server.destroy();
    }
  });

  it('is restored to its own schema first, if it is of an earlier release', async () => {
    const source = await emptyDatabase();
    const names = (await readdir('migrations')).filter((name) => name.endsWith('.sql')).sort();
    const [owner, lockSession] = [openSession(source.ownerUrl, 'test'), openSession(source.ownerUrl, 'test')];
    await migrate(owner, lockSession, { through: names.at(-3) ?? '' });
    await Promise.all([owner.destroy(), lockSession.destroy()]);
    await asOwner(
      source.ownerUrl,
      `insert into partners (id, name, slug, type, plan, status)
      values ('01900000-0000-7000-8000-0000000000bb', 'Early', 'early', 'msp', 'free', 'active')`,
    );
    const early = path.join(folder, 'early');
    const at = { ...(await access()), database: source };
    await writeBackup(at, { file: early, passphrase: undefined, withStore: false, environment: {} });
    const { manifest } = await verifyBackup(early, undefined);
    expect(manifest.schema.at(-1)?.name).to.equal(names.at(-3));
    const target = await emptyDatabase();
    const config = configOf(target, await newFolder());
    await restoreBackup({
      file: early,
      manifest,
      keys: undefined,
      replace: false,
      config,
      log: quietLog,
      onStep: () => {},
    });
    expect(await asOwner(target.ownerUrl, 'select name from partners')).to.deep.equal([{ name: 'Early' }]);
    const applied = await asOwner<{ name: string }>(
      target.ownerUrl,
      'select name from muster_migration_checksums order by name',
    );
    expect(applied.map(({ name }) => name)).to.deep.equal(names);
  });

  it('leaves nothing behind when the disk is full, neither while it is written nor while it is restored', async function () {
    const small = await newFolder();
    const disk = needsSmallDisk(this, mountSmallDisk(small, '600k'));
    try {
      const full = await rejection(
        writeBackup(await access(), {
          file: path.join(small, 'b'),
          passphrase: PASSPHRASE,
          withStore: true,
          environment: {},
        }),
      );
      expect(full).to.include({ code: 'ENOSPC' });
      expect(await readdir(small)).to.deep.equal([]);
      const database = await emptyDatabase();
      expect(await rejection(restore(database, { dataDir: small }))).to.include({ code: 'ENOSPC' });
      expect(await readdir(path.join(small, 'releases'))).to.deep.equal([]);
      disk.resize('4m');
      expect(await restore(database, { dataDir: small })).to.deep.equal({ database: 'restored' });
    } finally {
      disk.remove();
    }
  });

  it('is restored by a second run when the first one was killed, at whatever step', async () => {
    const database = await emptyDatabase();
    const dataDir = await newFolder();
    const env = environmentFor(database, dataDir);
    const args = ['restore', backup, '--passphrase-stdin'];
    for (const step of ['Creating the schema', 'Restoring the database']) {
      const { child, ended } = startOperatorProgram('src/cli/muster.ts', args, { env, stdin: PASSPHRASE });
      let out = '';
      child.stdout?.on('data', (text: string) => {
        out += text;
        if (out.includes(step)) child.kill('SIGKILL');
      });
      const killed = await ended;
      expect(killed.code, killed.out).to.equal(-1);
      const tables = await asOwner(database.ownerUrl, `select from pg_tables where tablename = 'users'`);
      if (tables.length > 0) expect(await used(database.ownerUrl)).to.deep.equal([]);
    }
    const ran = await runMuster([...args, '--json'], { env, stdin: PASSPHRASE });
    expect(ran.code, ran.out + ran.err).to.equal(0);
    expect(JSON.parse(ran.out)).to.include({ ok: true, database: 'restored', auditIntact: true });
    expect(await digests(database.ownerUrl)).to.have.property(
      'diagnostic_logs',
      (await digests(app.database.ownerUrl))['diagnostic_logs'],
    );
    // As if it was killed after the rows were there.
    expect(await restore(database, { dataDir })).to.deep.equal({ database: 'already' });
    await asOwner(database.ownerUrl, `delete from diagnostic_logs`);
    expect(await restore(database, { dataDir, replace: true })).to.deep.equal({ database: 'restored' });
    expect(await asOwner(database.ownerUrl, 'select count(*)::int from diagnostic_logs')).to.deep.equal([
      { count: 30_000 },
    ]);
  });
});
