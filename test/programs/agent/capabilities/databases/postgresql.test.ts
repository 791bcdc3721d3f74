import { expect } from 'chai';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type DatabaseBench, openDatabaseBench } from './database-bench.ts';
import { identity, startTestPostgres, type TestPostgres } from './postgres-server.ts';

/** A server of PostgreSQL, its logs and its restores, with the real programs. */
describe('backups of PostgreSQL', function () {
  this.timeout(180_000);
  let postgres: TestPostgres;
  let bench: DatabaseBench;

  before(async function () {
    postgres = await startTestPostgres(this, ['wal_keep_size=64MB']);
    bench = await openDatabaseBench(this, 'postgresql');
    postgres.sql('create table written (number integer primary key, at timestamptz)');
    postgres.sql('create database "it\'s a \\ \n name; drop table written"');
  });
  after(async () => {
    await bench?.close();
    await postgres?.close();
  });

  const write = (from: number, to: number) => {
    for (let number = from; number <= to; number += 1) {
      postgres.sql(`insert into written values (${number}, clock_timestamp())`);
    }
  };
  const now = () =>
    postgres.sql(`select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`);

  it('list the server with its databases, whatever their names', async () => {
    const found = (await bench.instances()).find(({ instance }) => instance === postgres.instance);
    expect(found).to.include({ engine: 'postgresql', port: 5432 });
    expect(found!.problems).to.deep.equal([]);
    expect(found!.databases.map(({ name }) => name)).to.include.members([
      'postgres',
      "it's a \\ \n name; drop table written",
    ]);
  });

  it('restore any instant between two logs, as the writer remembers it', async () => {
    write(1, 5);
    const full = await bench.backUp(postgres.instance);
    expect(full.details).to.include({ backupType: 'full', instance: postgres.instance, basedOn: null });
    write(6, 10);
    const first = now();
    write(11, 15);
    const log = await bench.backUp(postgres.instance);
    expect(log.details).to.include({ backupType: 'log' });
    write(16, 20);
    const last = await bench.backUp(postgres.instance);

    const at = async (name: string, order: { pointInTime: string }) => {
      const targetPath = await postgres.target(name);
      const result = await bench.restore(bench.restoreOf(last, { targetPath, ...order }));
      expect(result.database.isRecovered).to.equal(true);
      expect(Date.parse(result.database.recoveredTo!)).to.be.at.most(Date.parse(order.pointInTime));
      expect(result.filesRestored).to.be.greaterThan(100);
      expect((await stat(targetPath)).uid).to.equal(identity().uid);
      return postgres.askRestored(targetPath, 'select max(number), count(*) from written');
    };
    expect(await at('b', { pointInTime: first })).to.equal('10|10');
    expect(await at('c', { pointInTime: log.details.recoverableTo! })).to.equal('15|15');
  });

  const refused = async (name: string, given: object = {}) => {
    const [full, log] = bench.snapshots;
    const order = { ...bench.restoreOf(log!, { targetPath: `${postgres.folder}/${name}` }), ...given };
    const { code } = await bench.failure('backup.database-restore', order);
    return [code, full?.details.backupType];
  };

  it('are restored into an empty folder of the system user only, and leave it empty if they fail', async () => {
    const target = await postgres.target('wrong');
    const codeOf = async (name: string, given: object = {}) => (await refused(name, given))[0];
    expect(await codeOf('not-there')).to.equal('TARGET_UNSAFE');
    expect(await codeOf('data')).to.equal('TARGET_NOT_EMPTY');
    expect(await codeOf('data/PG_VERSION')).to.equal('TARGET_UNSAFE');
    await mkdir(path.join(postgres.folder, 'of-root'));
    expect(await codeOf('of-root')).to.equal('TARGET_UNSAFE');
    await symlink(target, path.join(postgres.folder, 'link'));
    expect(await codeOf('link')).to.equal('TARGET_UNSAFE');

    const [full, log, last] = bench.snapshots;
    const { parts = [] } = bench.restoreOf(last!, { targetPath: target });
    expect(await codeOf('wrong', { parts: [parts[0], parts[2]] })).to.equal('CHAIN_BROKEN');
    expect(await codeOf('wrong', { parts: [parts[1], parts[2]] })).to.equal('CHAIN_BROKEN');
    expect(await codeOf('wrong', { version: '12.1' })).to.equal('DATABASE_TOOL_MISSING');
    // The second part is not what the command says: a full backup, or the log of another span.
    expect(
      await codeOf('wrong', { parts: [parts[0], { ...parts[1], snapshotId: full!.engineId }] }),
    ).to.be.oneOf([
      'FAILED',
      'SNAPSHOT_MISSING',
      'SOURCE_UNREADABLE',
      'PATH_MISSING',
      'ENGINE_FAILED',
      'NOT_FOUND',
      'BACKUP_DAMAGED',
    ]);
    expect(
      await codeOf('wrong', { parts: [parts[0], { ...parts[1], snapshotId: last!.engineId }] }),
    ).to.equal('BACKUP_DAMAGED');
    const later = new Date(Date.parse(log!.details.recoverableTo!) + 3_600_000).toISOString();
    expect(await codeOf('wrong', { parts: parts.slice(0, 2), pointInTime: later })).to.equal(
      'POINT_NOT_REACHED',
    );
    expect(await readdir(target)).to.deep.equal([]);
    expect((await stat(target)).uid).to.equal(identity().uid);
  });

  it('are prepared for the server of the customer if no recovery is requested', async () => {
    const targetPath = await postgres.target('ready');
    const { database } = await bench.restore(
      bench.restoreOf(bench.snapshots[2]!, { targetPath, noRecovery: true }),
    );
    expect(database.isRecovered).to.equal(false);
    expect(postgres.askRestored(targetPath, 'select max(number) from written')).to.equal('20');
  });

  it('leave no snapshot if pg_basebackup is killed', async () => {
    const before = bench.storedSnapshots();
    // It is copied as well, so that the program still runs when a busy machine comes to killing it.
    const large = path.join(postgres.folder, 'data/large');
    await writeFile(large, '');
    execFileSync('chown', ['--reference', path.dirname(large), large]);
    await truncate(large, 512 * 1024 * 1024);
    const over = new AbortController();
    const watching = killProgramOf(postgres.folder, 'pg_basebackup', over.signal);
    const { code } = await bench
      .failure('backup.database', bench.orderOf(postgres.instance, 'full'))
      .finally(() => over.abort());
    await rm(large);
    expect(await watching).to.equal(true);
    expect(code).to.be.oneOf(['DATABASE_FAILED', 'DATABASE_NOT_FOUND']);
    expect(bench.storedSnapshots()).to.deep.equal(before);
  });

  it('find that the server has removed its log, or is another one', async () => {
    const order = bench.orderOf(postgres.instance, 'log');
    const previous = order.previous!;
    const foreign = { ...order, previous: { ...previous, branch: '1/1' } };
    expect((await bench.failure('backup.database', foreign)).code).to.equal('CHAIN_BROKEN');
    const recycled = { ...order, previous: { ...previous, to: '0/100000' } };
    postgres.sql(
      "alter system set wal_keep_size = '1MB'; alter system set max_wal_size = '2MB'; select pg_reload_conf()",
    );
    for (let index = 0; index < 4; index += 1) {
      postgres.sql('select pg_switch_wal(); checkpoint; create table if not exists t(); drop table t');
    }
    const { code, message } = await bench.failure('backup.database', { ...recycled, jobId: randomUUID() });
    expect(code).to.equal('CHAIN_BROKEN');
    expect(message).to.match(/removed the log/);
  });

  it('hold the log by a slot only if the server bounds that', async () => {
    expect(bench.snapshots[0]!.details.logsHeldBy).to.equal('nobody');
    postgres.sql("alter system set max_slot_wal_keep_size = '64MB'; select pg_reload_conf()");
    expect((await bench.backUp(postgres.instance, 'full')).details.logsHeldBy).to.equal('slot');
    const slots = () =>
      postgres.sql("select count(*) from pg_replication_slots where slot_name like 'muster%'");
    expect(slots()).to.equal('1');
    for (let index = 0; index < 4; index += 1) {
      postgres.sql('select pg_switch_wal(); checkpoint; create table if not exists t(); drop table t');
    }
    expect((await bench.backUp(postgres.instance)).details).to.include({
      backupType: 'log',
      logsHeldBy: 'slot',
    });
    expect(slots()).to.equal('1');
  });

  it('name missing paths', async () => {
    const order = bench.orderOf('/nowhere/.s.PGSQL.1', null);
    expect((await bench.failure('backup.database', order)).code).to.equal('DATABASE_NOT_FOUND');
    const differential = { ...order, instance: postgres.instance, backupType: 'differential' };
    expect((await bench.failure('backup.database', differential)).code).to.equal('DATABASE_UNSUPPORTED');
  });
});

/** Kills the first program of this name that works with the server of the test. False where none came until the signal. */
async function killProgramOf(folder: string, program: string, over: AbortSignal): Promise<boolean> {
  while (!over.aborted) {
    for (const pid of await readdir('/proc')) {
      if (!/^\d+$/.test(pid)) continue;
      const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      const [name = '', ...args] = line.split('\0');
      if (!name.endsWith(program) || !args.includes(folder)) continue;
      process.kill(Number(pid), 'SIGKILL');
      return true;
    }
  }
  return false;
}
