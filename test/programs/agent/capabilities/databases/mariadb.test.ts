import { expect } from 'chai';
import { readdir, stat } from 'node:fs/promises';
import { type DatabaseBench, openDatabaseBench } from './database-bench.ts';
import { mysqlUser, startTestMariadb, type TestMariadb } from './mariadb-server.ts';

/** A server of MariaDB and its restores, with the real programs. */
describe('backups of MariaDB', function () {
  this.timeout(180_000);
  let server: TestMariadb;
  let bench: DatabaseBench;

  before(async function () {
    server = await startTestMariadb(this);
    bench = await openDatabaseBench(this, 'mariadb');
    server.sql('create database shop; create table shop.written (number int primary key) engine=innodb');
    server.sql('create database `it\'s a \\\\ " name; drop`');
  });
  after(async () => {
    await bench?.close();
    await server?.close();
  });

  const write = (from: number, to: number) =>
    server.sql(
      Array.from(
        { length: to - from + 1 },
        (_, index) => `insert into shop.written values (${from + index})`,
      ).join('; '),
    );

  it('list the server with its databases, whatever their names', async () => {
    const found = (await bench.instances()).find(({ instance }) => instance === server.instance);
    expect(found).to.deep.include({ engine: 'mariadb', problems: [] });
    expect(found!.version).to.match(/MariaDB/);
    expect(found!.databases.map(({ name }) => name)).to.include.members([
      'shop',
      'it\'s a \\\\ " name; drop',
    ]);
  });

  it('restore a full backup, and a differential one with it', async () => {
    write(1, 10);
    const full = await bench.backUp(server.instance);
    expect(full.details).to.include({ backupType: 'full', basedOn: null });
    write(11, 20);
    const second = await bench.backUp(server.instance, 'differential');
    expect(second.details).to.include({ backupType: 'differential', basedOn: full.details.to });
    write(21, 30);
    const last = await bench.backUp(server.instance, 'differential');
    write(31, 40);
    for (const [snapshot, name, count] of [
      [full, 'a', '10'],
      [last, 'b', '30'],
    ] as const) {
      const targetPath = await server.target(name);
      const { database, bytesRestored } = await bench.restore(bench.restoreOf(snapshot, { targetPath }));
      expect(database).to.deep.include({ isRecovered: true, position: snapshot.details.to });
      expect(bytesRestored).to.be.greaterThan(10_000);
      expect(await readdir(targetPath)).not.to.include('muster-differential');
      expect((await stat(targetPath)).uid).to.equal(mysqlUser().uid);
      const answer = await server.askRestored(targetPath, 'select max(number), count(*) from shop.written');
      expect(answer).to.equal(`${count}\t${count}`);
    }
  });

  it('refuse logs, points in time, and a full backup of another server', async () => {
    const order = bench.orderOf(server.instance, 'differential');
    const codeOf = async (given: object) =>
      (await bench.failure('backup.database', { ...order, ...given })).code;
    expect(await codeOf({ backupType: 'log' })).to.equal('DATABASE_UNSUPPORTED');
    expect(await codeOf({ full: { ...order.full!, branch: 'another' } })).to.equal('CHAIN_BROKEN');
    const targetPath = await server.target('c');
    const restore = bench.restoreOf(bench.snapshots[2]!, { targetPath });
    const refused = async (given: object) =>
      (await bench.failure('backup.database-restore', { ...restore, ...given })).code;
    expect(await refused({ pointInTime: new Date().toISOString() })).to.equal('DATABASE_UNSUPPORTED');
    expect(await refused({ parts: restore.parts!.slice(1) })).to.equal('CHAIN_BROKEN');
    const other = { ...restore.parts![1], from: '1' };
    expect(await refused({ parts: [restore.parts![0], other] })).to.equal('CHAIN_BROKEN');
    expect(await readdir(targetPath)).to.deep.equal([]);
  });
});
