import { expect } from 'chai';
import { watchStalled } from '../../../../src/features/backup/alerts.ts';
import { COMMAND_TYPES, type JobUpdate, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import { insertRestore } from '../../../support/backup/restore-rows.ts';

describe('a backup that goes on no more', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let enrolled: EnrolledDevice;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildBackupTenant(app);
    const { id: configId } = await tenant.createConfig();
    enrolled = await buildDevice(app, tenant.orgId);
    await inSystem(app, (tx) =>
      tx.raw(
        `insert into backup_repositories (id, org_id, device_id, config_id, encryption_key_id, key_version, initialized_at)
        values (new_row_id(), ?, ?, ?, ?, 1, now())`,
        [tenant.orgId, enrolled.deviceId, configId, tenant.keyId],
      ),
    );
  });
  after(async () => app?.close());

  const watch = () => watchStalled(app.server.database.jobPool);
  const longAgo = (id: string) =>
    inSystem(app, (tx) =>
      tx.raw(
        `update work set advanced_at = now() - interval '16 minutes', started_at = now() - interval '20 minutes'
        where id = ?`,
        [id],
      ),
    );
  const alerts = async () =>
    inSystem(app, (tx) =>
      tx('alerts').where({ device_id: enrolled.deviceId, kind: 'backup_stalled' }).orderBy('raised_at'),
    );
  const stalledSince = async (id: string) =>
    (await tenant.send('GET', `/backup/jobs/${id}`)).body.progress.stalledSince;

  it('says so, raises one alert, and ends it when the device advances', async () => {
    const { body } = await tenant.send('POST', `/backup/jobs/run/${enrolled.deviceId}`, {});
    const id: string = body.id;
    const device = await connectDevice(app, enrolled.token, {
      capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
    });
    const client = await connectDashboard(app, tenant.admin.token);
    try {
      const updates: JobUpdate[] = [];
      client.socket.on('job:update', (update: JobUpdate) => updates.push(update));
      await client.send('jobs:subscribe', {});
      const shown = (isSo: (update: JobUpdate | undefined) => boolean) =>
        eventually(async () => {
          await app.settle();
          return updates.at(-1);
        }, isSo);
      await app.settle();
      const frame = await device.nextCommand();
      const report = { id: frame.id, seq: 0, phase: 'transferring', done: 10, filesDone: 1, path: '/a' };
      await device.send('command:progress', report);
      await shown((update) => update?.done === 10);
      await watch();
      expect([await stalledSince(id), await alerts()]).to.deep.equal([null, []]);

      await longAgo(id);
      await watch();
      await watch();
      const since = await stalledSince(id);
      expect(Date.now() - Date.parse(since)).to.be.greaterThan(15 * 60_000);
      expect((await alerts()).map(({ status, count }) => [status, count])).to.deep.equal([['active', 1]]);
      await shown((update) => update?.stalledSince === since);

      // The engine reports every second, also while nothing moves.
      await device.send('command:progress', { ...report, seq: 1, rate: 0, etaSeconds: 99 });
      await shown((update) => update?.rate === 0);
      expect(await stalledSince(id)).to.equal(since);

      await device.send('command:progress', { ...report, seq: 2, done: 11 });
      await shown((update) => update?.done === 11);
      expect(updates.at(-1)).not.to.have.property('stalledSince');
      expect(await stalledSince(id)).to.equal(null);
      await watch();
      expect((await alerts()).map(({ status }) => status)).to.deep.equal(['resolved']);

      await longAgo(id);
      await watch();
      expect((await alerts()).map(({ status }) => status)).to.deep.equal(['active']);
      await device.fail(frame, 'ENGINE_FAILED');
      await shown((update) => update?.id === id && update.state === 'failed');
      await watch();
      expect(await stalledSince(id)).to.equal(null);
      expect((await alerts()).map(({ status }) => status)).to.deep.equal(['resolved']);
    } finally {
      client.close();
      device.close();
    }
  });

  it('can be a restore as well', async () => {
    const { deviceId } = enrolled;
    const id = await inSystem(app, (tx) =>
      insertRestore(tx, { orgId: tenant.orgId, deviceId, work: { status: 'running' } }),
    );
    await longAgo(id);
    await watch();
    const { body } = await tenant.send('GET', `/backup/restore/${id}`);
    expect(body.stalledSince).to.be.a('string');
    const [alert] = (await alerts()).filter(({ status }) => status === 'active');
    expect(alert?.title).to.match(/a restore does not advance$/);
  });
});
