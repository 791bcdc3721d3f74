import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { mssql, localTime } from '../../../../../src/agent/capabilities/databases/mssql.ts';
import { AgentError } from '../../../../../src/agent/core/agent-error.ts';
import type { RunSql } from '../../../../../src/agent/sql-server.ts';
import type { SqlBackupSet } from '../../../../../src/protocol/index.ts';
import { openDatabaseBench } from './database-bench.ts';

const DATABASE = "shop]; DROP DATABASE [x]; --'$(y)";
const SPOOL = String.raw`D:\Muster spool`;
const FORK = '0C6D5E4F-3A2B-4C1D-8E9F-0A1B2C3D4E5F';

/**
 * SQL Server as its documentation describes it, played: nothing of Windows was run. It reads the scripts of the agent,
 * writes the files, and keeps its log and its history as the real one does.
 */
class PlayedSqlServer {
  readonly scripts: string[] = [];
  readonly databases = new Map<string, { state: 'ONLINE' | 'RESTORING'; parts: string[] }>();
  readonly #folder: string;
  readonly #history = new Map<string, SqlBackupSet>();
  #lsn = 1_234_567_890_123_456_789_000_000n;
  #logFrom: bigint | undefined;
  #lastFull: string | undefined;
  isFull = false;

  constructor(folder: string) {
    this.#folder = folder;
  }

  readonly run: RunSql = async ({ sql, answer }) => {
    this.scripts.push(sql);
    const [database = '', file = ''] = [...sql.matchAll(/0x([0-9A-F]*)\)/g)].map(([, hex = '']) =>
      Buffer.from(hex, 'hex').toString('utf16le'),
    );
    return answer.parse(await this.#answer(sql, database, file));
  };

  /** Somebody else makes a backup. */
  elsewhere(backupType: SqlBackupSet['backupType']): void {
    this.#made(backupType, null);
  }

  async #answer(sql: string, database: string, file: string): Promise<unknown> {
    if (sql.includes('BACKUP LOG @db')) return this.#backUp('log', file);
    if (sql.includes('BACKUP DATABASE @db')) {
      return this.#backUp(sql.includes('DIFFERENTIAL') ? 'differential' : 'full', file);
    }
    if (sql.includes("N'RESTORE DATABASE @db")) return this.#restoreFull(sql, database, file);
    if (sql.includes('RESTORE DATABASE @db') || sql.includes('RESTORE LOG @db')) {
      return this.#restoreMore(sql, database, file);
    }
    if (sql.includes('DROP DATABASE ')) {
      if (this.databases.get(database)?.state === 'RESTORING') this.databases.delete(database);
      return { remaining: 0 };
    }
    if (sql.includes('DB_ID(@db) IS NOT NULL')) {
      if (this.databases.has(database)) throw new AgentError('DATABASE_EXISTS', 'It is there.');
      return { version: '16.0' };
    }
    return this.#history.get(file) ?? null;
  }

  async #backUp(backupType: SqlBackupSet['backupType'], file: string): Promise<SqlBackupSet> {
    const set = this.#made(backupType, file);
    await writeFile(this.#local(file), `${backupType} ${set.firstLsn} ${set.lastLsn}`, { flag: 'wx' });
    return set;
  }

  #made(backupType: SqlBackupSet['backupType'], file: string | null): SqlBackupSet {
    const now = this.#lsn;
    this.#lsn += 10n;
    const first = backupType === 'log' ? (this.#logFrom ?? now) : now;
    this.#logFrom = backupType === 'log' ? this.#lsn : (this.#logFrom ?? now);
    const uuid = randomUUID().toUpperCase();
    const set = {
      id: this.#history.size + 1,
      uuid,
      backupType,
      firstLsn: String(first),
      lastLsn: String(this.#lsn),
      isCopyOnly: false,
      isDamaged: false,
      fork: FORK,
      differentialBase: backupType === 'differential' ? (this.#lastFull ?? null) : null,
      finishedAt: '2026-11-24T06:00:00',
      sizeBytes: 100,
      file,
    };
    if (backupType === 'full') this.#lastFull = uuid;
    this.#history.set(file ?? uuid, set);
    return set;
  }

  async #restoreFull(sql: string, database: string, file: string): Promise<unknown> {
    const state = sql.includes('NORECOVERY') ? 'RESTORING' : 'ONLINE';
    this.databases.set(database, { state, parts: [await readFile(this.#local(file), 'utf8')] });
    return { state };
  }

  async #restoreMore(sql: string, database: string, file: string): Promise<unknown> {
    const found = this.databases.get(database);
    if (found?.state !== 'RESTORING') throw new AgentError('CHAIN_BROKEN', 'It is not RESTORING.');
    if (this.isFull) throw new AgentError('TARGET_FULL', 'There is no room.');
    found.parts.push(await readFile(this.#local(file), 'utf8'));
    found.state = sql.includes('NORECOVERY') ? 'RESTORING' : 'ONLINE';
    return { state: found.state };
  }

  #local = (file: string) => path.join(this.#folder, file.slice(file.lastIndexOf('\\') + 1));
}

describe('a database of SQL Server in the repository', function () {
  this.timeout(120_000);
  let folder: string;
  let server: PlayedSqlServer;
  let bench: NonNullable<Awaited<ReturnType<typeof openDatabaseBench>>>;
  let isUploadCut = false;

  beforeEach(async function () {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-mssql-'));
    await mkdir(path.join(folder, 'spool'));
    server = new PlayedSqlServer(path.join(folder, 'spool'));
    const port = mssql({ run: server.run, toLocal: () => path.join(folder, 'spool') });
    const cutting: typeof port = {
      ...port,
      async openBackup(order) {
        const opened = await port.openBackup(order);
        if (!isUploadCut) return opened;
        return { ...opened, finish: () => Promise.reject(new AgentError('DESTINATION_FULL', 'Cut off.')) };
      },
    };
    const opened = await openDatabaseBench(this, 'mssql', {
      ports: [cutting],
      given: { databases: [DATABASE], spoolPath: SPOOL },
    });
    bench = opened!;
  });
  afterEach(async () => {
    await bench?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const INSTANCE = 'MSSQLSERVER';
  const spooled = () => readdir(path.join(folder, 'spool'));
  const failure = async (wanted: 'differential' | 'log' | null = null) => {
    const { error } = await bench.ended(await bench.send('backup.database', bench.orderOf(INSTANCE, wanted)));
    return error?.code;
  };

  it('goes from a full backup to logs that join, and comes back as a new database at a chosen instant', async () => {
    const full = await bench.backUp(INSTANCE);
    expect(full.details).to.deep.include({ engine: 'mssql', backupType: 'full', databases: [DATABASE] });
    expect(await spooled()).to.deep.equal([]);
    const [one, two] = [await bench.backUp(INSTANCE), await bench.backUp(INSTANCE)];
    expect([one.details.backupType, two.details.from]).to.deep.equal(['log', one.details.to]);
    // The newest log waits until the server is known to have it.
    expect(await spooled()).to.have.length(1);
    for (const sql of server.scripts) expect(sql).not.to.contain('DROP DATABASE [x]');

    const target = { targetPath: SPOOL, targetDatabase: 'shop copy' };
    const pointInTime = two.details.recoverableTo ?? '';
    const restored = await bench.restore(bench.restoreOf(two, { ...target, pointInTime }));
    expect(restored.database).to.deep.include({ isRecovered: true, recoveredTo: pointInTime });
    expect(server.databases.get('shop copy')).to.deep.equal({
      state: 'ONLINE',
      parts: [full, one, two].map(({ details: { backupType, from, to } }) => `${backupType} ${from} ${to}`),
    });
    expect(server.scripts.at(-1)).to.contain(`STOPAT = '${localTime(new Date(pointInTime))}'`);
    expect(await spooled()).to.have.length(1);
    // The name is taken now: nothing is fetched.
    const again = bench.restoreOf(two, target);
    const { error } = await bench.ended(await bench.send('backup.database-restore', again));
    expect(error?.code).to.equal('DATABASE_EXISTS');
  });

  it('loses no log whose way to the repository was cut off', async () => {
    const full = await bench.backUp(INSTANCE);
    isUploadCut = true;
    expect(await failure()).to.equal('DESTINATION_FULL');
    isUploadCut = false;
    const log = await bench.backUp(INSTANCE);
    const next = await bench.backUp(INSTANCE);
    expect(BigInt(log.details.from ?? 0) <= BigInt(full.details.to ?? 0)).to.equal(true);
    expect(next.details.from).to.equal(log.details.to);
    expect(server.scripts.filter((sql) => sql.includes('BACKUP LOG'))).to.have.length(2);
    expect(await spooled()).to.have.length(1);
  });

  it('is broken if another program has taken a log, or made the full backup that a differential one is based on', async () => {
    await bench.backUp(INSTANCE);
    const differential = await bench.backUp(INSTANCE, 'differential');
    expect(differential.details.basedOn).to.equal(bench.snapshots[0]?.details.to);
    server.elsewhere('full');
    expect(await failure('differential')).to.equal('CHAIN_BROKEN');
    await bench.backUp(INSTANCE, 'full');
    server.elsewhere('log');
    server.elsewhere('log');
    await bench.backUp(INSTANCE, 'full');
    const log = await bench.backUp(INSTANCE, 'log');
    expect(log.details.backupType).to.equal('log');
    server.elsewhere('log');
    expect(await failure('log')).to.equal('CHAIN_BROKEN');
  });

  it('leaves no half database and no file behind if a restore fails', async () => {
    await bench.backUp(INSTANCE);
    const log = await bench.backUp(INSTANCE);
    server.isFull = true;
    const order = bench.restoreOf(log, { targetPath: SPOOL, targetDatabase: DATABASE });
    const { error } = await bench.ended(await bench.send('backup.database-restore', order));
    expect(error?.code).to.equal('TARGET_FULL');
    expect([...server.databases.keys()]).to.deep.equal([]);
    expect((await spooled()).filter((name) => name.startsWith('muster-restore-'))).to.deep.equal([]);
  });
});
