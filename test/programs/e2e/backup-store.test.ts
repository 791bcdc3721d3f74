import { expect } from 'chai';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openPool } from '../../../src/platform/db/pool.ts';
import { eventually } from '../../support/eventually.ts';
import { lastingPort } from '../../support/lasting-port.ts';
import { killProgram } from '../../support/program.ts';
import { needsRestic } from '../../support/restic.ts';
import { startServerProcess, type StartedServer } from '../../support/started-server.ts';
import { call } from '../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';
import { buildRepository, end, resticAs } from '../../support/backup/store-support.ts';

const JWT_SECRET = 'a-secret-that-only-tests-sign-with';

describe('the backup store of a server', function () {
  this.timeout(150_000);
  let database: TestDatabase;
  let dataDir: string;
  let server: StartedServer;
  let port: number;
  let pool: ReturnType<typeof openPool>;

  before(async function () {
    needsRestic(this);
    database = await createTestDatabase();
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-store-process-'));
    port = await lastingPort();
    pool = openPool(database.appUrl, { max: 2, name: 'test' });
  });
  after(async () => {
    await pool?.destroy();
    await database?.drop();
    if (dataDir !== undefined) await rm(dataDir, { recursive: true, force: true });
  });
  afterEach(async () => killProgram(server));

  const start = async (more: Record<string, string> = {}) => {
    server = await startServerProcess({
      DATABASE_URL: database.ownerUrl,
      DATABASE_URL_APP: database.appUrl,
      JWT_SECRET,
      SECRET_ENCRYPTION_KEY: 'a-key-that-only-tests-seal-secrets-with',
      DATA_DIR: dataDir,
      PORT: String(port),
      ...more,
    });
  };
  const ground = () => ({
    call: (method: string, where: string, options = {}) =>
      call(`${server.url}/api/v1${where}`, method, options),
    log: [],
    jwtSecret: JWT_SECRET,
    server: { database: { pool } },
    url: server.url,
    dataDir,
  });

  it('is killed during a backup, which goes on and is whole', async () => {
    await start();
    const repository = await buildRepository(ground());
    await (await resticAs(ground(), repository.id, 'server')).ok('init');
    const source = path.join(dataDir, 'source');
    await mkdir(source);
    for (let i = 0; i < 20; i++) await writeFile(path.join(source, `file-${i}`), randomBytes(4_000_000));
    const packs = async () =>
      (
        await readdir(path.join(dataDir, 'backups', repository.id, 'data'), { recursive: true }).catch(
          () => [],
        )
      ).filter((name) => name.length > 60).length;

    const device = await resticAs(ground(), repository.id, 'device');
    const backup = device.start('backup', source, '--limit-upload', '30000');
    await eventually(packs, (found) => found >= 2, 30_000);
    await killProgram(server);
    await start();
    const { code, stderr } = await backup.ended;
    expect(code, stderr).to.equal(0);
    expect(await readdir(path.join(dataDir, 'backups', repository.id, 'tmp'))).to.deep.equal([]);
    await end(ground(), device.credential);
    const reader = await resticAs(ground(), repository.id, 'server');
    await reader.ok('check', '--read-data');
    const target = path.join(dataDir, 'target');
    await reader.ok('restore', 'latest', '--target', target);
    execFileSync('diff', ['-r', source, path.join(target, source)]);
  });
});
