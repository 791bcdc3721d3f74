import { expect } from 'chai';
import { type ClosedWindow, dueJobs } from '../../../../src/features/backup/job.queries.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import { buildDevice } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

/** Which backup jobs can begin at a moment. The jobs, and the presence of their devices, are rows only. */

const MINUTE_MS = 60_000;
const inMinutes = (minutes: number) => new Date(Date.now() + minutes * MINUTE_MS);

describe('the backup jobs that can begin', () => {
  let app: TestApp;
  let tenant: BackupTenant;
  let configId: string;
  let deviceId: string;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildBackupTenant(app);
    configId = (await tenant.createConfig()).id;
    deviceId = await addDevice();
  });

  const sql = (table: string, where: Record<string, unknown>, values: Record<string, unknown>) =>
    inSystem(app, (tx) => tx(table).where(where).update(values));
  /** A connected device that can make backups. */
  const addDevice = async () => {
    const { deviceId: id } = await buildDevice(app, tenant.orgId);
    await sql('devices', { id }, { capabilities: ['backup.run', SECRETS_CAPABILITY] });
    await inSystem(app, (tx) =>
      tx('device_presence')
        .insert({
          device_id: id,
          org_id: tenant.orgId,
          epoch: 1,
          node_id: 'n',
          state: 'connected',
          since: new Date(),
          reason: 'connected',
        })
        .onConflict('device_id')
        .merge(),
    );
    return id;
  };
  const addJob = async (more: Record<string, unknown> = {}) => {
    const id = newId();
    await inSystem(app, (tx) =>
      tx('backup_jobs').insert({
        id,
        org_id: tenant.orgId,
        device_id: deviceId,
        config_id: configId,
        type: 'manual',
        due_at: inMinutes(-1),
        expires_at: inMinutes(60),
        ...more,
      }),
    );
    return id;
  };
  const addRepository = (values: Record<string, unknown>) =>
    inSystem(app, (tx) =>
      tx('backup_repositories').insert({
        id: newId(),
        org_id: tenant.orgId,
        device_id: deviceId,
        config_id: configId,
        encryption_key_id: tenant.keyId,
        key_version: 1,
        ...values,
      }),
    );
  /** Of this tenant: other files leave jobs behind as well. */
  const due = async (closed: readonly ClosedWindow[] = []) =>
    inSystem(app, async (tx) => {
      const found = await dueJobs(tx, closed);
      const own = new Set(await tx('backup_jobs').where({ org_id: tenant.orgId }).pluck('id'));
      return found.filter(({ id }) => own.has(id));
    });
  const ids = async (closed: readonly ClosedWindow[] = []) => (await due(closed)).map(({ id }) => id);

  it('are those whose time has come, that were not sent, and have not ended', async () => {
    const id = await addJob();
    expect(await ids()).to.deep.equal([id]);
    for (const [change, back] of [
      [{ due_at: inMinutes(1) }, { due_at: inMinutes(-1) }],
      [{ command_id: newId() }, { command_id: null }],
      [
        { status: 'failed', finished_at: new Date() },
        { status: 'pending', finished_at: null },
      ],
    ] as const) {
      await sql('backup_jobs', { id }, change);
      expect(await ids(), Object.keys(change).join()).to.deep.equal([]);
      await sql('backup_jobs', { id }, back);
    }
    expect(await ids()).to.deep.equal([id]);
  });

  it('are those of connected devices that are in use, of organizations that are active', async () => {
    const id = await addJob();
    for (const [table, where, change, back] of [
      ['device_presence', { device_id: deviceId }, { state: 'disconnected' }, { state: 'connected' }],
      ['devices', { id: deviceId }, { condition: 'decommissioned' }, { condition: 'normal' }],
      ['devices', { id: deviceId }, { condition: 'pending' }, { condition: 'normal' }],
      ['organizations', { id: tenant.orgId }, { status: 'suspended' }, { status: 'active' }],
      ['partners', { id: tenant.partnerId }, { status: 'suspended' }, { status: 'active' }],
    ] as const) {
      await sql(table, where, change);
      expect(await ids(), JSON.stringify(change)).to.deep.equal([]);
      await sql(table, where, back);
      expect(await ids()).to.deep.equal([id]);
    }
  });

  it('are not those whose repository is being pruned, until that is over', async () => {
    const id = await addJob();
    await addRepository({ pruning_until: inMinutes(1) });
    expect(await ids()).to.deep.equal([]);
    await sql('backup_repositories', { device_id: deviceId }, { pruning_until: inMinutes(-1) });
    expect(await ids()).to.deep.equal([id]);
  });

  it('say whether the device is able to, and whether its repository is made', async () => {
    const id = await addJob();
    expect(await due()).to.deep.equal([{ id, canBackUp: true, isInitialized: false }]);
    await addRepository({ initialized_at: new Date() });
    await sql('devices', { id: deviceId }, { capabilities: [SECRETS_CAPABILITY] });
    expect(await due()).to.deep.equal([{ id, canBackUp: false, isInitialized: true }]);
    await sql('devices', { id: deviceId }, { capabilities: ['backup.run'] });
    expect(await due()).to.deep.equal([{ id, canBackUp: false, isInitialized: true }]);
  });

  it('are within the window of their schedule, except for those of people', async () => {
    const scheduled = await addJob({ type: 'scheduled' });
    const { timezone } = await inSystem(app, (tx) =>
      tx('sites').where({ id: tenant.siteId }).first('timezone'),
    );
    expect(await ids([{ configId: newId(), timeZone: timezone }])).to.deep.equal([scheduled]);
    expect(await ids([{ configId, timeZone: 'Pacific/Chatham' }])).to.deep.equal([scheduled]);
    expect(await ids([{ configId, timeZone: timezone }])).to.deep.equal([]);
    await sql('backup_jobs', { id: scheduled }, { type: 'manual' });
    expect(await ids([{ configId, timeZone: timezone }])).to.deep.equal([scheduled]);
  });

  it('are one at a time of a device into a folder of its own, those of people first', async () => {
    const local = await tenant.createConfig({
      name: 'Local',
      provider: 'local',
      details: { path: '/mnt/backup' },
    });
    configId = local.id;
    const other = await tenant.createConfig({
      name: 'Other',
      provider: 'local',
      details: { path: '/mnt/other' },
    });
    const early = await addJob({ type: 'scheduled', due_at: inMinutes(-9) });
    expect(await ids()).to.deep.equal([early]);
    const manual = await addJob({ config_id: other.id, due_at: inMinutes(-1) });
    expect(await ids()).to.deep.equal([manual]);
    await sql('backup_jobs', { id: manual }, { command_id: newId() });
    expect(await ids(), 'while one runs').to.deep.equal([]);
    deviceId = await addDevice();
    const elsewhere = await addJob({ type: 'scheduled' });
    expect(await ids(), 'of another device').to.deep.equal([elsewhere]);
  });
});
