import { expect } from 'chai';
import { COMMAND_TYPES, type CommandFrame, SECRETS_CAPABILITY } from '../../../../../src/protocol/index.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildDevice, type EnrolledDevice } from '../../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../../support/backup/backup-support.ts';
import { inSystem } from '../../../../support/backup/store-support.ts';

const ABLE = [...COMMAND_TYPES, SECRETS_CAPABILITY];
const SOURCES = { kind: 'mssql', database: "shop]'; --", spoolPath: String.raw`D:\Spool` };

/** Databases of SQL Server as sources of a configuration: what is ordered, and what of. */
describe('snapshots of databases of SQL Server', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let enrolled: EnrolledDevice;
  let device: FakeDevice;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildBackupTenant(app);
    const { id: configId } = await tenant.createConfig({
      provider: 'local',
      details: { path: String.raw`E:\Backups` },
      sources: SOURCES,
    });
    enrolled = await buildDevice(app, tenant.orgId);
    await inSystem(app, async (tx) => {
      await tx('devices').where({ id: enrolled.deviceId }).update({ os_type: 'windows', capabilities: ABLE });
      await tx('backup_repositories').insert({
        id: tx.raw('new_row_id()'),
        org_id: tenant.orgId,
        device_id: enrolled.deviceId,
        config_id: configId,
        encryption_key_id: tenant.keyId,
        key_version: 1,
        provider: 'local',
        initialized_at: new Date(),
      });
    });
    device = await connectDevice(app, enrolled.token, { capabilities: ABLE });
    await device.heartbeat();
  });
  after(async () => {
    device?.close();
    await app?.close();
  });

  const run = (body: object = {}) => tenant.send('POST', `/backup/jobs/run/${enrolled.deviceId}`, body);
  const ended = (id: string) =>
    eventually(
      async () => (await tenant.send('GET', `/backup/jobs/${id}`)).body,
      ({ finishedAt }) => finishedAt !== null,
    );
  const result = (frame: CommandFrame, details: object) =>
    device.succeed(frame, {
      status: 'completed',
      snapshotId: frame.id.replaceAll('-', '').padEnd(64, '0'),
      takenAt: new Date().toISOString(),
      filesNew: 1,
      filesChanged: 0,
      filesUnmodified: 0,
      bytesProcessed: 10,
      bytesAdded: 10,
      seconds: 1,
      unreadable: { count: 0, paths: [] },
      details,
    });
  const details = (given: object) => ({
    kind: 'database',
    engine: 'mssql',
    instance: 'MSSQLSERVER',
    databases: [SOURCES.database],
    backupType: 'full',
    version: '',
    from: '1234567890123456789012345',
    to: '1234567890123456789012400',
    branch: '0C6D5E4F-3A2B-4C1D-8E9F-0A1B2C3D4E5F',
    basedOn: null,
    recoverableFrom: new Date().toISOString(),
    recoverableTo: new Date().toISOString(),
    setId: '7C6D5E4F-3A2B-4C1D-8E9F-0A1B2C3D4E5F',
    ...given,
  });

  it('need one database, and a folder of Windows that leads nowhere else', async () => {
    for (const [field, wrong] of [
      ['database', { database: undefined }],
      ['spoolPath', { spoolPath: undefined }],
      ['spoolPath', { spoolPath: '/var/spool' }],
      ['spoolPath', { spoolPath: String.raw`D:\a\..\b` }],
      ['instance', { instance: 'a b; --' }],
      ['between', { between: 'sometimes' }],
      ['paths', { paths: { windows: ['C:\\'] } }],
    ] as const) {
      const body = tenant.newConfig({ sources: { ...SOURCES, ...wrong } });
      const answer = await tenant.send('POST', '/backup/configs', body);
      expect(answer.status, field).to.equal(400);
      expect(JSON.stringify(answer.body)).to.contain(field);
    }
  });

  it('begin with a full backup, go on with logs, and begin again if another program has taken one', async () => {
    const first = await run();
    expect(first.status, JSON.stringify(first.body)).to.equal(201);
    const full = await device.nextCommand();
    expect(full.type).to.equal('backup.database');
    expect(full.payload).to.deep.include({
      engine: 'mssql',
      instance: 'MSSQLSERVER',
      databases: [SOURCES.database],
      spoolPath: SOURCES.spoolPath,
      backupType: 'full',
    });
    await result(full, details({}));
    expect(await ended(first.body.id)).to.include({ status: 'completed', backupType: 'full' });

    const second = await run();
    const log = await device.nextCommand();
    expect(log.payload).to.deep.include({ backupType: 'log' });
    expect((log.payload as { previous: object }).previous).to.deep.include({
      to: '1234567890123456789012400',
    });
    const ofLog = { backupType: 'log', recoverableFrom: null, from: '1234567890123456789012380' };
    await result(log, details({ ...ofLog, to: '1234567890123456789012500' }));
    const { snapshotId } = await ended(second.body.id);
    const { body } = await tenant.send('GET', `/backup/databases/chains?deviceId=${enrolled.deviceId}`);
    expect(body.data[0].chains[0]).to.deep.include({ engine: 'mssql', databases: [SOURCES.database] });
    expect(body.data[0].chains[0].snapshots).to.have.length(2);
    expect(body.data[0].chains[0].ranges).to.have.length(1);
    const snapshot = await tenant.send('GET', `/backup/snapshots/${snapshotId}`);
    expect(snapshot.body.paths).to.deep.equal([`mssql MSSQLSERVER ${SOURCES.database}`]);

    // Where another program has taken a log, the next backup is full by itself.
    const third = await run();
    await device.fail(await device.nextCommand(), 'CHAIN_BROKEN', 'A log is missing.');
    expect(await ended(third.body.id)).to.include({ status: 'failed' });
    await run();
    expect((await device.nextCommand()).payload).to.deep.include({ backupType: 'full' });
  });
});
