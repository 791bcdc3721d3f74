import { expect } from 'chai';
import { watchConfigs } from '../../../../src/features/cloud-backup/readiness.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildTenant } from '../../../support/factories.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import { type CloudFixture, createCloudFixture } from '../../../support/cloud-backup/cloud-support.ts';

interface ReadyConfig {
  configId: string;
  name: string;
  readinessScore: number;
  estimatedRpoMinutes: number | null;
  riskFactors: { code: string }[];
}

describe('cloud backups in the overview of backups', function () {
  this.timeout(60_000);
  let cloud: CloudFixture;
  before(async () => {
    cloud = await createCloudFixture();
    cloud.mailbox('ada@example.com').message('m', 'Mail');
  });
  after(() => cloud.close());
  afterEach(() => {
    cloud.graph.onCall = undefined;
  });

  const read = async (path: string, token = cloud.tenant.admin.token) => {
    const { status, body } = await cloud.app.call('GET', path, { token });
    expect(status, JSON.stringify(body)).to.equal(200);
    return body.data;
  };
  const overview = async () => (await read('/backup/dashboard')).cloud;
  const attention = async () =>
    ((await overview()).attentionItems as ReadyConfig[]).map(
      ({ name, riskFactors }) => `${name}: ${riskFactors.map(({ code }) => code).join(' ')}`,
    );
  const configure = (name: string, more = {}) => cloud.config({ name, backupScope: ['mail'], ...more });
  const daily = { schedule: { frequency: 'daily', time: '02:00' } };
  /** As if the configuration was made, and last ran well, some days ago. */
  const age = (configId: string, days: number) =>
    inSystem(cloud.app, async (tx) => {
      const ago = tx.raw('now() - make_interval(days => ?)', [days]);
      await tx('c2c_configs').where('id', configId).update({ created_at: ago });
      await tx('c2c_configs')
        .where('id', configId)
        .whereNotNull('last_success_at')
        .update({ last_success_at: ago });
      await tx('work')
        .whereIn('id', tx('c2c_job_facts').where('config_id', configId).select('id'))
        .update({ finished_at: ago });
    });
  const watch = () => watchConfigs(cloud.app.server.database.jobPool, new AbortController().signal);
  const refuse = () => {
    cloud.graph.onCall = ({ path }) =>
      path.startsWith('/users')
        ? { status: 403, body: { error: { code: 'Authorization_RequestDenied' } } }
        : undefined;
  };
  const missed = async () =>
    (await cloud.call('GET', '/alerts?kind=cloud_backup_missed&status=active')).body.data as {
      message: string;
    }[];

  it('are unprotected until a run has ended well, and failing from the first failed run to the next good one', async () => {
    const configId = await configure('Mail', daily);
    expect(await overview()).to.include({ configs: 1, protected: 0, unprotected: 1, failing: 0, late: 0 });
    expect(await read('/backup/health')).to.deep.include({
      status: 'critical',
      devices: 0,
      cloud: { configs: 1, critical: 1, atRisk: 1 },
    });
    await cloud.run(configId);
    expect(await overview()).to.deep.equal({
      configs: 1,
      protected: 1,
      failing: 0,
      late: 0,
      unprotected: 0,
      attentionItems: [],
    });
    expect(await read('/backup/health')).to.include({ status: 'healthy' });
    refuse();
    expect(await cloud.run(configId)).to.include({ status: 'failed' });
    expect(await overview()).to.include({ protected: 0, failing: 1, late: 0, unprotected: 0 });
    expect(await attention()).to.deep.equal(['Mail: last_failed']);
    expect(await read('/backup/health')).to.include({ status: 'degraded' });
    cloud.graph.onCall = undefined;
    await cloud.run(configId);
    expect(await overview()).to.include({ protected: 1, failing: 0 });
  });

  it('are late when no run has ended well for longer than the schedule allows, which raises one alert until one has', async () => {
    const { data } = (await cloud.call('GET', '/c2c/configs')).body;
    const configId = data[0].id as string;
    await age(configId, 1);
    await watch();
    expect(await overview()).to.include({ late: 0 });
    await age(configId, 2);
    await watch();
    await watch();
    expect(await attention()).to.deep.equal(['Mail: backup_stale']);
    expect((await missed()).map(({ message }) => message.split(':')[0])).to.deep.equal(['Mail']);
    await age(configId, 30);
    await watch();
    expect(await attention()).to.deep.equal(['Mail: backup_overdue']);
    expect(await missed()).to.have.length(1);
    const [config] = (await read('/backup/recovery-readiness')).cloudConfigs as ReadyConfig[];
    expect(config).to.include({ configId, readinessScore: 55 });
    expect(config?.estimatedRpoMinutes).to.be.closeTo(30 * 1440, 1);
    await cloud.run(configId);
    expect(await missed()).to.deep.equal([]);
    expect(await overview()).to.include({ late: 0, protected: 1 });
  });

  it('stay missed when they are saved with the schedule that they have', async () => {
    const configId = await configure('Saved', daily);
    await age(configId, 5);
    await watch();
    expect(await missed()).to.have.length(1);
    const { body } = await cloud.call('GET', `/c2c/configs/${configId}`);
    const form = { name: 'Saved again', schedule: body.schedule, enabled: true };
    expect((await cloud.call('PATCH', `/c2c/configs/${configId}`, form)).status).to.equal(200);
    await watch();
    const still = await missed();
    await cloud.call('DELETE', `/c2c/configs/${configId}`);
    expect(still).to.have.length(1);
  });

  it('are no longer missed once nothing is expected, or the configuration is removed', async () => {
    const configId = await configure('Paused', daily);
    await age(configId, 5);
    await watch();
    expect(await missed()).to.have.length(1);
    await cloud.call('PATCH', `/c2c/configs/${configId}`, { enabled: false });
    expect(await missed()).to.deep.equal([]);
    expect(await attention(), 'nothing of it is backed up all the same').to.deep.equal(['Paused: no_backup']);
    await cloud.call('PATCH', `/c2c/configs/${configId}`, { enabled: true });
    await watch();
    expect(await missed(), 'what was not expected is not made up for').to.deep.equal([]);
    await age(configId, 5);
    await inSystem(cloud.app, (tx) =>
      tx('c2c_configs').where('id', configId).update({ scheduled_since: null }),
    );
    await watch();
    expect(await missed()).to.have.length(1);
    await cloud.call('DELETE', `/c2c/configs/${configId}`);
    expect(await missed()).to.deep.equal([]);
    expect(await overview()).to.include({ configs: 1, unprotected: 0 });
  });

  it('show that the connection fails before any run does, until it is mended', async () => {
    await inSystem(cloud.app, (tx) =>
      tx('c2c_connections')
        .where('id', cloud.connectionId)
        .update({ last_error_code: 'AUTHENTICATION_FAILED' }),
    );
    await watch();
    expect(await attention()).to.deep.equal(['Mail: connection_failing']);
    await cloud.call('PATCH', `/c2c/connections/${cloud.connectionId}`, { clientSecret: 'another-secret' });
    expect(await attention()).to.deep.equal([]);
  });

  it('are of the own tenant and the chosen organization only', async () => {
    const configId = await configure('Foreign to others');
    const other = await buildTenant(cloud.app);
    const { token } = other.admin;
    expect((await read('/backup/dashboard', token)).cloud).to.include({ configs: 0, unprotected: 0 });
    expect((await read('/backup/recovery-readiness', token)).cloudConfigs).to.deep.equal([]);
    expect((await read('/backup/health', token)).cloud).to.deep.equal({ configs: 0, critical: 0, atRisk: 0 });
    const foreign = await cloud.app.call('GET', `/backup/dashboard?orgId=${cloud.tenant.orgId}`, { token });
    expect(foreign.status).to.be.oneOf([403, 404]);
    const mine = await read(`/backup/recovery-readiness?orgId=${cloud.tenant.orgId}`);
    expect((mine.cloudConfigs as ReadyConfig[]).map((one) => one.configId)).to.include(configId);
    expect(
      (await cloud.app.call('GET', `/backup/dashboard?orgId=${newId()}`, { token: cloud.tenant.admin.token }))
        .status,
    ).to.be.oneOf([403, 404]);
  });
});
