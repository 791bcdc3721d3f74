import { expect } from 'chai';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { killProgram } from '../../support/program.ts';
import { startServerProcess, type StartedServer } from '../../support/started-server.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

/** Lets a test cause an error in a process that it cannot reach into. */
const failsOn = (signal: string, statement: string) =>
  `--import=data:text/javascript,${encodeURIComponent(`process.on('${signal}', () => { ${statement} })`)}`;

describe('the process of the server', function () {
  this.timeout(120_000);
  let database: TestDatabase;
  let dataDir: string;
  let server: StartedServer;

  before(async () => {
    database = await createTestDatabase();
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-process-'));
  });
  after(async () => {
    await database.drop();
    await rm(dataDir, { recursive: true, force: true });
  });
  afterEach(() => killProgram(server));

  const start = async (nodeOptions = '') => {
    server = await startServerProcess({
      DATABASE_URL: database.ownerUrl,
      DATABASE_URL_APP: database.appUrl,
      JWT_SECRET: 'a-secret-that-only-tests-sign-with',
      SECRET_ENCRYPTION_KEY: 'a-key-that-only-tests-seal-secrets-with',
      DATA_DIR: dataDir,
      ...(nodeOptions === '' ? {} : { NODE_OPTIONS: nodeOptions }),
    });
  };
  const events = () => server.log().map(({ event }) => event);
  const connections = async () =>
    (
      await asOwner<{ n: number }>(
        database.ownerUrl,
        `select count(*)::int as n from pg_stat_activity
          where datname = current_database() and application_name like 'muster%'`,
      )
    )[0]?.n;

  it('closes in order on SIGTERM and exits with code 0', async () => {
    await start();
    expect(await connections()).to.be.greaterThan(0);
    server.child.kill('SIGTERM');
    expect(await server.ended).to.equal(0);
    expect(events().slice(-2)).to.deep.equal(['server.closing', 'server.closed']);
    expect(await connections()).to.equal(0);
  });

  const faults = [
    ['an unhandled rejection', `Promise.reject(new Error('planted'))`],
    ['an uncaught exception', `throw new Error('planted')`],
  ] as const;
  for (const [name, statement] of faults) {
    it(`logs ${name} as fatal, closes in order and exits with code 1`, async () => {
      await start(failsOn('SIGUSR2', statement));
      server.child.kill('SIGUSR2');
      expect(await server.ended).to.equal(1);
      const fatal = server.log().find(({ level }) => level === 'fatal');
      expect(fatal).to.deep.include({ event: 'server.fault' });
      expect(fatal?.['err']).to.include({ message: 'planted' });
      expect(events().at(-1)).to.equal('server.closed');
      expect(await connections()).to.equal(0);
    });
  }
});
