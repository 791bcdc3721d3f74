import { expect } from 'chai';
import { COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../../../src/protocol/index.ts';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { buildDevice, buildPerson, buildTenant, type EnrolledDevice } from '../../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../../support/test-app.ts';

const HOSTILE = "a]; DROP DATABASE [x]; --'$(y)";
const OUTPUT_PATH = String.raw`D:\Backups`;

describe('databases of SQL Server', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let enrolled: EnrolledDevice;
  let device: FakeDevice;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    enrolled = await buildDevice(app, tenant.orgId);
  });
  after(async () => app?.close());
  beforeEach(async () => {
    device = await connectDevice(app, enrolled.token, {
      capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
    });
    await device.heartbeat();
  });
  afterEach(() => device.close());

  const call = (method: string, path: string, body?: object, token = tenant.admin.token) =>
    app.call(method, `/backup/mssql/${path}`, { token, ...(body === undefined ? {} : { body }) });
  const post = (path: string, body: object, token?: string) =>
    call('POST', path, { deviceId: enrolled.deviceId, instance: 'MSSQLSERVER', ...body }, token);

  it('are listed as their device last listed them', async () => {
    const instance = {
      engine: 'mssql',
      instance: 'MSSQLSERVER',
      version: '15.0.2000.5',
      port: null,
      dataFolder: null,
      databases: [{ name: HOSTILE, sizeBytes: 1 }],
      problems: [],
    };
    const asking = call('GET', `instances/${enrolled.deviceId}?refresh=true`);
    const frame = await device.nextCommand();
    expect(frame).to.include({ type: 'backup.databases' });
    await device.succeed(frame, { instances: [instance] });
    const { status, body } = await asking;
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body.data[0]).to.deep.include(instance);
    expect((await call('GET', 'instances')).body.data).to.have.length(1);
  });

  it('are backed up and restored by commands with their names as they are', async () => {
    const made = await post('backup', { database: HOSTILE, backupType: 'log', outputPath: OUTPUT_PATH });
    expect(made.status, JSON.stringify(made.body)).to.equal(202);
    const frame = await device.nextCommand();
    expect(frame).to.include({ type: 'backup.mssql-backup', id: made.body.id });
    expect(frame.payload).to.include({
      database: HOSTILE,
      backupType: 'log',
      outputPath: OUTPUT_PATH,
      copyOnly: false,
    });
    await device.fail(frame, 'RECOVERY_MODEL', 'SQL Server 4208: Not with SIMPLE.');
    const ended = await app.call('GET', `/commands/${frame.id}`, { token: tenant.admin.token });
    expect(ended.body.error.code).to.equal('RECOVERY_MODEL');
    const restored = await post('restore', {
      backupFile: String.raw`\\nas\sql\a.bak`,
      targetDatabase: HOSTILE,
      noRecovery: true,
    });
    expect(restored.status, JSON.stringify(restored.body)).to.equal(202);
    const ordered = await device.nextCommand();
    expect(ordered.payload).to.include({ targetDatabase: HOSTILE, noRecovery: true, backupType: 'full' });
    // Without its end it would be sent again to the device of the next test.
    await device.fail(ordered, 'RESTORE_FAILED');
  });

  it('have chains, from the history of the server itself', async () => {
    const asking = call('GET', `chains?deviceId=${enrolled.deviceId}&instance=MSSQLSERVER&database=sales`);
    const frame = await device.nextCommand();
    expect(frame).to.deep.include({
      type: 'backup.mssql-history',
      payload: { instance: 'MSSQLSERVER', database: 'sales' },
    });
    await device.succeed(frame, { sets: [], recoveryModel: 'FULL' });
    const { body } = await asking;
    expect(body.data).to.deep.include({ recoveryModel: 'FULL', chains: [] });
    expect(body.data.warnings[0].code).to.equal('NO_FULL');
    for (const set of [{ id: 1 }, { firstLsn: '1e30' }, null]) {
      const again = call('GET', `chains?deviceId=${enrolled.deviceId}&instance=MSSQLSERVER&database=sales`);
      await device.succeed(await device.nextCommand(), { sets: [set], recoveryModel: 'FULL' });
      expect((await again).status).to.equal(502);
    }
  });

  it('are not named by what can be no name, and left alone by people who may only read', async () => {
    const right = { database: 'a', backupType: 'full', outputPath: OUTPUT_PATH };
    for (const [given, field] of [
      [{ instance: 'a -x' }, 'body.instance'],
      [{ instance: '\\\\evil' }, 'body.instance'],
      [{ database: 'x'.repeat(129) }, 'body.database'],
      [{ database: 'a\0b' }, 'body.database'],
      [{ outputPath: '../x' }, 'body.outputPath'],
      [{ outputPath: String.raw`D:\a\..\..` }, 'body.outputPath'],
      [{ outputPath: 'D:\\a\nGO' }, 'body.outputPath'],
      [{ copyOnly: true, backupType: 'log' }, 'body.copyOnly'],
    ] as const) {
      const answer = await post('backup', { ...right, ...given });
      expect([answer.status, answer.body.details?.[0]?.path], JSON.stringify(given)).to.deep.equal([
        400,
        field,
      ]);
    }
    const stop = {
      backupFile: String.raw`D:\a.bak`,
      targetDatabase: 'a',
      backupType: 'log',
      stopAt: "2026'",
    };
    expect((await post('restore', stop)).body.details[0].path).to.equal('body.stopAt');
    const { token } = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    expect((await post('backup', right, token)).status).to.equal(403);
    expect((await post('restore', stop, token)).status).to.equal(403);
  });
});
