import { expect } from 'chai';
import { openDatabase } from '../../../src/platform/db/database.ts';
import { PooledDatabaseError } from '../../../src/platform/db/pooler.ts';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { connectDashboard } from '../../support/dashboard-client.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant } from '../../support/factories.ts';
import { type PoolerOptions, startPooler, type TestPooler } from '../../support/pgbouncer.ts';
import { quietLog } from '../../support/quiet-log.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

describe('a server behind PgBouncer', function () {
  this.timeout(60_000);
  let database: TestDatabase;
  let pooler: TestPooler;
  const closing: (() => Promise<void>)[] = [];

  beforeEach(async () => {
    database = await createTestDatabase();
    closing.push(() => database.drop());
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  const start = async (test: Mocha.Context, options: PoolerOptions) => {
    const { ownerUrl, appUrl, auditAdminUrl = '' } = database;
    pooler = await startPooler(test, [appUrl, ownerUrl, auditAdminUrl], options);
    closing.push(() => pooler.stop());
  };
  const refusal = (urls: Partial<Parameters<typeof openDatabase>[0]>) =>
    openDatabase({ ...database, autoMigrate: true, poolSize: 2, log: quietLog, ...urls }).then(
      async (opened) => {
        await opened.close();
        return 'none';
      },
      (error: unknown) => (error instanceof PooledDatabaseError ? error.message : String(error)),
    );

  for (const ignoresSettings of [true, false]) {
    it(`in transaction mode that ${ignoresSettings ? 'ignores' : 'refuses'} settings does not start without DATABASE_URL_SESSION, and names it`, async function () {
      await start(this, { mode: 'transaction', ignoresSettings });
      const appUrl = pooler.through(database.appUrl);
      expect(await refusal({ appUrl })).to.match(
        /^DATABASE_URL_APP leads to a connection pooler in transaction mode\..* DATABASE_URL_SESSION /,
      );
      expect(await refusal({ appUrl, sessionUrl: appUrl })).to.match(/^DATABASE_URL_SESSION leads to a/);
    });
  }

  it('in transaction mode does not migrate, nor prune the audit trail, through it', async function () {
    await start(this, { mode: 'transaction' });
    const urls = { appUrl: pooler.through(database.appUrl), sessionUrl: database.appUrl };
    expect(await refusal({ ...urls, ownerUrl: pooler.through(database.ownerUrl) })).to.match(
      /^DATABASE_URL leads to a connection pooler in transaction mode\..* Postgres itself/,
    );
    expect(await refusal({ ...urls, auditAdminUrl: pooler.through(database.auditAdminUrl ?? '') })).to.match(
      /^AUDIT_ADMIN_DATABASE_URL leads to a connection pooler/,
    );
  });

  it('in session mode starts as without one', async function () {
    await start(this, { mode: 'session', ignoresSettings: true });
    expect(await refusal({ appUrl: pooler.through(database.appUrl) })).to.equal('none');
  });

  it('in transaction mode serves: many readers at once, jobs, enrolments, commands, and rights that end at once', async function () {
    await start(this, { mode: 'transaction' });
    const app: TestApp = await createTestApp({
      database: { ...database, appUrl: pooler.through(database.appUrl), sessionUrl: database.appUrl },
    });
    closing.push(() => app.close());
    const { orgId, admin } = await buildTenant(app);
    const device = await buildDevice(app, orgId);
    const { token } = admin;

    // As many at once as the pool has connections: more have to wait, and are refused on a busy machine.
    for (let round = 0; round < 12; round += 1) {
      const statuses = await Promise.all(
        Array.from({ length: 10 }, async (_, index) => {
          const path = ['/devices', '/orgs/organizations', '/alerts', '/audit-logs/logs'][index % 4] ?? '';
          return (await app.call('GET', path, { token })).status;
        }),
      );
      expect(new Set(statuses)).to.deep.equal(new Set([200]));
    }
    const enrolled = await Promise.all(Array.from({ length: 8 }, () => buildDevice(app, orgId)));
    expect(new Set(enrolled.map(({ deviceId }) => deviceId)).size).to.equal(8);
    const command = await app.call('POST', `/devices/${device.deviceId}/commands`, {
      token,
      body: { type: 'agent.refresh-inventory' },
    });
    expect(command.status).to.equal(202);

    const invited = await app.call('POST', '/auth/forgot-password', { body: { email: admin.email } });
    expect(invited.status).to.equal(200);
    await eventually(
      () => app.log.filter(({ event }) => event === 'job.succeeded'),
      (ended) => ended.length > 0,
      10_000,
    );
    expect((await app.call('GET', '/health/ready')).body.checks).to.include({ jobs: 'ok' });

    const person = await buildPerson(app, {
      scope: 'organization',
      orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const dashboard = await connectDashboard(app, person.token);
    const disabled = await app.call('PATCH', `/users/${person.id}`, { token, body: { status: 'disabled' } });
    expect(disabled.status).to.equal(200);
    await eventually(
      () => dashboard.socket.connected,
      (isConnected) => !isConnected,
      5_000,
    );
    const noise = app.log.filter(
      ({ level, event }) => (level === 'error' || level === 'warn') && event !== 'server.no_administrator',
    );
    expect(noise).to.deep.equal([]);
  });
});
