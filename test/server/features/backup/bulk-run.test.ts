import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';
import { buildDevice, buildOrganization, buildPerson } from '../../../support/factories.ts';
import type { TestApp } from '../../../support/test-app.ts';

describe('backups of many devices', () => {
  let app: TestApp;
  let tenant: BackupTenant;
  let configId: string;
  let devices: string[];

  before(async () => {
    // There is no engine on the server: a repository of its store has to be there already.
    app = await createStoreApp();
  });
  after(async () => app?.close());
  beforeEach(async () => {
    tenant = await buildBackupTenant(app);
    configId = (await tenant.createConfig()).id;
    devices = [await ableDevice(), await ableDevice()];
    for (const deviceId of devices) await addRepository(deviceId);
  });

  const ableDevice = async (
    orgId = tenant.orgId,
    capabilities: readonly string[] = [...COMMAND_TYPES, SECRETS_CAPABILITY],
  ) => {
    const { deviceId } = await buildDevice(app, orgId);
    await inSystem(app, (tx) => tx('devices').where({ id: deviceId }).update({ capabilities }));
    return deviceId;
  };
  const addRepository = (deviceId: string) =>
    inSystem(app, (tx) =>
      tx.raw(
        `insert into backup_repositories (id, org_id, device_id, config_id, provider, encryption_key_id, key_version, initialized_at)
        values (new_row_id(), ?, ?, ?, 'server', ?, 1, now())`,
        [tenant.orgId, deviceId, configId, tenant.keyId],
      ),
    );
  const start = (deviceIds: readonly string[], person = tenant.admin) =>
    tenant.send('POST', '/backup/jobs/bulk', { deviceIds }, person);
  const jobsOf = async (deviceId: string) =>
    (await tenant.send('GET', `/backup/jobs?deviceId=${deviceId}`)).body.data;
  const started = ({ body }: { body: { jobs: { deviceId: string }[] } }) =>
    body.jobs.map(({ deviceId }) => deviceId);
  const refusals = ({ body }: { body: { refused: { deviceId: string; code: string }[] } }) =>
    body.refused.map(({ deviceId, code }) => [deviceId, code]);

  it('are started where they can be, and each other device is named with the reason', async () => {
    const stranger = await buildBackupTenant(app);
    await stranger.createConfig();
    const foreign = await ableDevice(stranger.orgId);
    const bare = await ableDevice(await buildOrganization(app, tenant.partnerId));
    const old = await ableDevice(tenant.orgId, ['agent.reboot']);
    const withoutRepository = await ableDevice();
    const pending = await ableDevice();
    await inSystem(app, (tx) => tx('devices').where({ id: pending }).update({ condition: 'pending' }));
    const idle = await buildOrganization(app, tenant.partnerId);
    const suspended = await ableDevice(idle);
    await inSystem(app, (tx) => tx('organizations').where({ id: idle }).update({ status: 'suspended' }));
    const nobody = newId();

    const others = [foreign, bare, old, withoutRepository, pending, suspended, nobody];
    const answer = await start([...others, devices[0]!, devices[1]!.toUpperCase(), devices[0]!]);
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
    expect(started(answer)).to.have.members(devices);
    expect(refusals(answer)).to.deep.equal([
      [foreign, 'NOT_FOUND'],
      [bare, 'CONFLICT'],
      [old, 'CAPABILITY_MISSING'],
      [withoutRepository, 'ENGINE_MISSING'],
      [pending, 'DEVICE_PENDING'],
      [suspended, 'TENANT_INACTIVE'],
      [nobody, 'NOT_FOUND'],
    ]);
    expect(answer.body.refused[1].message).to.equal('The organization has no backup configuration.');
    await app.settle();
    for (const deviceId of devices) {
      const [job, ...more] = await jobsOf(deviceId);
      expect(more).to.deep.equal([]);
      expect(job).to.include({
        status: 'pending',
        type: 'manual',
        configId,
        waitingFor: 'device',
        createdBy: tenant.admin.id,
      });
      const entries = await inSystem(app, (tx) =>
        tx('audit_logs').where({ resource_id: job.id }).select('action', 'actor_id', 'org_id'),
      );
      expect(entries).to.deep.equal([
        { action: 'backup.job.run', actor_id: tenant.admin.id, org_id: tenant.orgId },
      ]);
    }
    expect((await stranger.send('GET', '/backup/jobs')).body.data).to.deep.equal([]);
  });

  it('are started once, by however many requests at a time and in whatever order', async () => {
    const reversed = [...devices].reverse();
    const answers = await Promise.all([0, 1, 2, 3].map((n) => start(n % 2 === 0 ? devices : reversed)));
    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200, 200, 200]);
    expect(answers.flatMap(started)).to.have.members(devices);
    const again = await start(devices);
    expect(started(again)).to.deep.equal([]);
    expect(refusals(again)).to.deep.equal(devices.map((id) => [id, 'CONFLICT']));
    expect(again.body.refused[0].message).to.contain('in flight');
    for (const deviceId of devices) expect(await jobsOf(deviceId)).to.have.length(1);
  });

  it('are made by the default configuration, and by none if several could be meant', async () => {
    const second = await tenant.createConfig({ name: 'Second' });
    await tenant.createConfig({ name: 'Third' });
    const unclear = await start(devices);
    expect(started(unclear)).to.deep.equal([]);
    expect(unclear.body.refused[0].message).to.contain('none of them is the default');
    expect((await tenant.send('POST', `/backup/jobs/run/${devices[0]}`, {})).status).to.equal(400);
    await inSystem(app, async (tx) => {
      await tx('backup_configs').where({ id: configId }).update({ is_default: true });
      await tx('backup_configs').where({ id: second.id }).update({ enabled: false });
    });
    const answer = await start(devices);
    expect(answer.body.jobs.map((job: { configId: string }) => job.configId)).to.deep.equal([
      configId,
      configId,
    ]);
  });

  it('need the right to run backups, and a request that is one', async () => {
    const viewer = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    expect((await start(devices, viewer)).status).to.equal(403);
    const many = Array.from({ length: 500 }, newId);
    const answer = await start(many);
    expect([answer.status, answer.body.refused.length]).to.deep.equal([200, 500]);
    for (const wrong of [[...many, newId()], [], ['x'], 'all']) {
      const { status, body } = await tenant.send('POST', '/backup/jobs/bulk', { deviceIds: wrong });
      expect([status, body.details[0].path.slice(0, 14)], String(wrong).slice(0, 40)).to.deep.equal([
        400,
        'body.deviceIds',
      ]);
    }
    const huge = await tenant.send('POST', '/backup/jobs/bulk', { deviceIds: ['x'.repeat(1_000_000)] });
    expect(huge.status).to.equal(413);
    for (const deviceId of devices) expect(await jobsOf(deviceId)).to.deep.equal([]);
  });

  it('take no more statements for many than for few', async () => {
    const more = await Promise.all(Array.from({ length: 8 }, () => ableDevice()));
    await Promise.all(more.map(addRepository));
    const { pool } = app.server.database;
    let statements = 0;
    const count = () => void (statements += 1);
    pool.on('query', count);
    try {
      expect(started(await start(devices))).to.have.length(2);
      const forTwo = statements;
      expect(forTwo).to.be.within(4, 30);
      statements = 0;
      expect(started(await start(more))).to.have.length(8);
      expect(statements).to.equal(forTwo);
    } finally {
      pool.off('query', count);
    }
  });
});
