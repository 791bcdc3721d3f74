import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import { SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { insertJob } from '../../../support/backup/job-rows.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import { buildDevice } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { testClock } from '../../../support/test-clock.ts';

/** What keeps a backup job from being given to its device. The presence of devices is a row only. */

const MINUTE_MS = 60_000;
const inMinutes = (minutes: number) => new Date(Date.now() + minutes * MINUTE_MS);

interface Found {
  stage: string;
  step: string;
  status: string;
  seconds: number;
  error_code: string | null;
  command_id: string | null;
}

describe('a backup job begins', () => {
  let app: TestApp;
  let tenant: BackupTenant;
  let configId: string;
  let deviceId: string;

  before(async () => {
    app = await sharedTestApp({ BACKUP_ENGINE_PATH: '/nowhere' });
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildBackupTenant(app);
    configId = (await tenant.createConfig()).id;
    deviceId = await addDevice();
  });

  const change = (table: string, where: Record<string, unknown>, values: Record<string, unknown>) =>
    inSystem(app, (tx) => tx(table).where(where).update(values));
  const addRepository = (values: Record<string, unknown> = {}) =>
    inSystem(app, (tx) =>
      tx('backup_repositories').insert({
        id: newId(),
        org_id: tenant.orgId,
        device_id: deviceId,
        config_id: configId,
        encryption_key_id: tenant.keyId,
        key_version: 1,
        initialized_at: new Date(),
        ...values,
      }),
    );
  /** A connected device that can make backups. */
  const addDevice = async () => {
    const { deviceId: id } = await buildDevice(app, tenant.orgId);
    await change('devices', { id }, { capabilities: ['backup.run', SECRETS_CAPABILITY] });
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
  const addJob = (
    given: { configId?: string; facts?: Record<string, unknown>; work?: Record<string, unknown> } = {},
  ) => inSystem(app, (tx) => insertJob(tx, { orgId: tenant.orgId, deviceId, configId, ...given }));
  /** After a look of the server at what is due. */
  const seen = async (id: string): Promise<Found> => {
    await app.settle();
    return inSystem(app, (tx) =>
      tx('work')
        .where({ id })
        .first(
          'stage',
          'step',
          'status',
          'error_code',
          'command_id',
          tx.raw('extract(epoch from due_at - now())::float as seconds'),
        ),
    );
  };
  const makeDue = (id: string) => change('work', { id }, { due_at: new Date(), stage: 'ready' });

  it('if its device is connected, and its repository is made', async () => {
    await addRepository();
    const id = await addJob();
    expect(await seen(id)).to.include({ stage: 'device', step: 'record', status: 'pending' });
    const later = await addJob({ work: { due_at: inMinutes(1) } });
    expect(await seen(later)).to.include({ stage: 'ready', step: 'begin' });
  });

  it('with a device that is in use, of an organization that is active', async () => {
    await addRepository();
    const id = await addJob({ work: { due_at: inMinutes(1) } });
    for (const [table, where, values, back] of [
      ['devices', { id: deviceId }, { condition: 'decommissioned' }, { condition: 'normal' }],
      ['devices', { id: deviceId }, { condition: 'pending' }, { condition: 'normal' }],
      ['organizations', { id: tenant.orgId }, { status: 'suspended' }, { status: 'active' }],
      ['partners', { id: tenant.partnerId }, { status: 'suspended' }, { status: 'active' }],
    ] as const) {
      await change(table, where, values);
      await makeDue(id);
      const found = await seen(id);
      expect(found, JSON.stringify(values)).to.include({ stage: 'ready', step: 'begin', status: 'pending' });
      expect(found.seconds).to.be.within(500, 600);
      await change(table, where, back);
    }
    await change('device_presence', { device_id: deviceId }, { state: 'disconnected' });
    await makeDue(id);
    expect(await seen(id)).to.include({ stage: 'parked' });
    await change('device_presence', { device_id: deviceId }, { state: 'connected' });
    await makeDue(id);
    expect(await seen(id)).to.include({ stage: 'device' });
  });

  it('while its repository is not being pruned', async () => {
    await addRepository({ pruning_until: inMinutes(1) });
    const id = await addJob();
    const found = await seen(id);
    expect(found).to.include({ stage: 'ready', step: 'begin' });
    expect(found.seconds).to.be.within(5, 15);
    await change('backup_repositories', { device_id: deviceId }, { pruning_until: inMinutes(-1) });
    await makeDue(id);
    expect(await seen(id)).to.include({ stage: 'device' });
  });

  it('not with a device that cannot make backups', async () => {
    await addRepository();
    for (const capabilities of [[SECRETS_CAPABILITY], ['backup.run']]) {
      await change('devices', { id: deviceId }, { capabilities });
      expect(await seen(await addJob())).to.include({ status: 'failed', error_code: 'CAPABILITY_MISSING' });
    }
  });

  it('not without its configuration, or with that of an organization which its device has left', async () => {
    const id = await addJob({ configId: null as unknown as string });
    expect(await seen(id)).to.include({ status: 'failed', error_code: 'CONFIG_MISSING' });
    const other = await buildBackupTenant(app);
    const foreign = await addJob({ configId: (await other.createConfig()).id });
    expect(await seen(foreign)).to.include({ status: 'failed', error_code: 'CONFIG_MISSING' });
  });

  it('when the server has made its repository, and fails if what is in its place has another key', async () => {
    const id = await addJob();
    expect(await seen(id)).to.include({ stage: 'device', step: 'record' });
    const [repository] = await inSystem(app, (tx) =>
      tx('backup_repositories').where({ device_id: deviceId }),
    );
    expect(repository.initialized_at).to.be.instanceOf(Date);
    await change('backup_repositories', { id: repository.id }, { initialized_at: null });
    await inSystem(app, (tx) =>
      tx('backup_objects').where({ repository_id: repository.id, type: 'keys' }).delete(),
    );
    const after = await addJob();
    expect(await seen(after)).to.include({ status: 'failed', error_code: 'SERVER_WRONG_KEY' });
  });

  it('within the window of its schedule, unless a person has asked for it', async () => {
    await addRepository();
    // An hour that begins in ten minutes.
    const clockIn = (minutes: number) =>
      new Date(testClock.now() + minutes * MINUTE_MS).toISOString().slice(11, 16);
    await tenant.send('PATCH', `/backup/configs/${configId}`, {
      schedule: {
        frequency: 'daily',
        time: clockIn(10),
        windowStart: clockIn(10),
        windowEnd: clockIn(70),
        timezone: 'UTC',
      },
    });
    const id = await addJob({ facts: { type: 'scheduled' } });
    const found = await seen(id);
    expect(found).to.include({ stage: 'ready', step: 'begin' });
    expect(found.seconds).to.be.within(500, 600);
    expect(await seen(await addJob())).to.include({ stage: 'device' });
  });

  it('one at a time into a folder of its device, those of people first', async () => {
    const elsewhere = await addDevice();
    const of = { target: deviceId, target_limit: 1 };
    await addRepository();
    const scheduled = await addJob({ work: { ...of, due_at: inMinutes(-9) }, facts: { type: 'scheduled' } });
    const manual = await addJob({ work: { ...of, is_urgent: true } });
    deviceId = elsewhere;
    await addRepository();
    const other = await addJob({ work: { target: elsewhere, target_limit: 1 } });
    expect((await seen(manual)).stage).to.equal('device');
    expect((await seen(scheduled)).stage).to.equal('ready');
    expect((await seen(other)).stage).to.equal('device');
  });

  it('with the limit of its destination, and waits for its device from the request on', async () => {
    await change('device_presence', { device_id: deviceId }, { state: 'disconnected' });
    for (const [given, target, limit] of [
      [{ name: 'Store' }, 'server', 64],
      [{ name: 'Disk', provider: 'local', details: { path: '/mnt/backup' } }, deviceId, 1],
      [
        {
          name: 'Bucket',
          provider: 's3',
          details: { region: 'eu-1', bucket: 'bucket', accessKey: 'a', secretKey: 's', prefix: 'p' },
        },
        's3//eu-1/bucket',
        32,
      ],
    ] as const) {
      const config = await tenant.createConfig(given);
      await inSystem(app, (tx) =>
        tx('backup_repositories').insert({
          id: newId(),
          org_id: tenant.orgId,
          device_id: deviceId,
          config_id: config.id,
          provider: config.provider,
          initialized_at: new Date(),
        }),
      );
      const { status, body } = await tenant.send('POST', `/backup/jobs/run/${deviceId}`, {
        configId: config.id,
      });
      expect(status, JSON.stringify(body)).to.equal(201);
      const row = await inSystem(app, (tx) =>
        tx('work').where({ id: body.id }).first('stage', 'target', 'target_limit', 'is_urgent'),
      );
      expect(row).to.deep.equal({ stage: 'parked', target, target_limit: limit, is_urgent: true });
    }
  });
});
