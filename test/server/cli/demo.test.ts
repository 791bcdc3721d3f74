import { expect } from 'chai';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DEMO_PEOPLE, type DemoEmail, seedDemo } from '../../../seeds/demo.ts';
import { signInTo, publishDemoReleases } from '../../../src/cli/demo/data.ts';
import { setUpWork } from '../../../src/cli/demo/work.ts';
import { readConfig } from '../../../src/config.ts';
import { SigningKeys } from '../../../src/features/audit/index.ts';
import { checkStored } from '../../../src/features/audit/stored-check.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { hashPassword } from '../../../src/platform/secrets/passwords.ts';
import { buildDevice } from '../../support/factories.ts';
import { eventually } from '../../support/eventually.ts';
import { connectDevice } from '../../support/fake-device.ts';
import { quietLog } from '../../support/quiet-log.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

/** What the demo puts into an empty Muster, beside the agents. */
describe('the data of the demo', () => {
  const DAY_MS = 86_400_000;
  const PASSWORD = 'Correct-Horse-9';
  let app: TestApp;
  let token: string;
  let dataDir: string;

  before(async () => {
    app = await createTestApp();
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-demo-data-'));
    const hash = await hashPassword(PASSWORD);
    const hashes = Object.fromEntries(DEMO_PEOPLE.map(({ email }) => [email, hash]));
    await withSystem(app.server.database.pool, 'seed the demo', (tx) =>
      seedDemo(tx, hashes as Record<DemoEmail, string>),
    );
    const credentials = { email: 'admin@demo.example', password: PASSWORD };
    token = (await app.call('POST', '/auth/login', { body: credentials })).body.tokens.accessToken;
  });
  after(async () => {
    await app.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  const get = async (place: string) => (await app.call('GET', place, { token })).body;
  const totalOf = async (place: string) => (await get(place)).pagination.total as number;

  it('has several customers, and devices that are away for a reason, some for longer than a week', async () => {
    expect(await totalOf('/orgs/organizations')).to.equal(4);
    const { data } = await get('/devices?limit=100');
    expect(data.length).to.be.greaterThan(50);
    for (const { status, presence } of data) {
      expect(['offline', 'quarantined']).to.include(status);
      expect(['socket_closed', 'heartbeat_missed']).to.include(presence.reason);
    }
    const away = data.filter(
      ({ presence }: { presence: { since: string } }) => Date.now() - Date.parse(presence.since) > 7 * DAY_MS,
    );
    expect(await totalOf('/alerts?kind=device_offline&status=active,acknowledged')).to.equal(away.length);
  });

  it('has alerts in every state, and a rollout that was halted for a reason', async () => {
    for (const status of ['active', 'acknowledged', 'resolved']) {
      expect(await totalOf(`/alerts?status=${status}`), status).to.be.greaterThan(2);
    }
    const [halted] = (await get('/alerts?kind=watchdog_rollout_halted')).data;
    expect(halted.message).to.match(/failed in the upgrade of the watchdog to 1\.2\.0-rc\.1: CHI-NB-/);
    const rollouts = await withSystem(app.server.database.pool, 'read the rollouts', (tx) =>
      tx('agent_rollouts as r')
        .join('agent_rollout_halts as h', 'h.rollout_id', 'r.id')
        .select('state', 'reason'),
    );
    expect(rollouts).to.deep.equal([{ state: 'halted', reason: 'failed_in_a_row' }]);
  });

  it('has thirty days of audit entries, marked as made up, in chains that hold', async () => {
    await app.server.chainWriter.flush();
    const report = await checkStored(app.server.database.pool, {
      own: new SigningKeys(app.server.secrets),
    });
    expect(report.faults).to.deep.equal([]);
    expect(report.entries).to.be.greaterThan(1000);
    const day = new Date(Date.now() - 27 * DAY_MS).toISOString().slice(0, 10);
    const { data } = await get(`/audit-logs/logs?to=${day}`);
    expect(data.length).to.be.greaterThan(0);
    for (const { details } of data) expect(details.demo).to.equal('Made up for the demo.');
  });

  it('sets up work once: filters with groups that use them, scripts that were run, maintenance', async () => {
    const { data } = await get('/orgs/organizations');
    const orgId = data.find(({ slug }: { slug: string }) => slug === 'alder-finch-law').id;
    const server = await buildDevice(app, orgId, { osType: 'linux' });
    const agent = await connectDevice(app, server.token);
    const client = await signInTo(app.url, { email: 'admin@demo.example', password: PASSWORD });
    const state = async () => ({
      filters: (await get('/filters')).data.length,
      groups: await totalOf('/groups'),
      scripts: await totalOf('/scripts'),
      schedules: await totalOf('/script-schedules'),
      runs: (await get(`/devices/${server.deviceId}/commands`)).data.length,
      status: (await get(`/devices/${server.deviceId}`)).status,
      tags: (await get(`/devices/${server.deviceId}`)).tags,
      policies: await totalOf('/notification-policies'),
      channels: await totalOf('/notification-channels'),
      windows: await totalOf('/maintenance-windows'),
    });
    await eventually(
      () => totalOf('/devices?status=online'),
      (online) => online === 1,
    );
    await setUpWork(client);
    const first = await state();
    await setUpWork(client);
    agent.close();
    const told = { policies: 1, channels: 1, windows: 1 };
    const work = { filters: 5, groups: 5, scripts: 8, schedules: 1, runs: 1 };
    const once = { ...work, ...told, status: 'maintenance', tags: ['server'] };
    expect([first, await state()]).to.deep.equal([once, once]);
    const [group] = (await get('/groups?search=Replacement')).data;
    expect(group.type).to.equal('dynamic');
    expect(group.deviceCount).to.be.greaterThan(0);
  });

  it('publishes candidates that promotion offers to no device, and starts one rollout, once', async () => {
    const config = { ...readConfig({ environment: {} }), dataDir };
    for (const _again of [1, 2]) await publishDemoReleases(app.server, config, quietLog);
    const { body } = await app.call('GET', '/agent-versions', { token });
    expect(body.data).to.have.length(6);
    for (const { promoted } of body.data) expect(promoted).to.equal(false);
    const running = await withSystem(app.server.database.pool, 'count rollouts', (tx) =>
      tx('agent_rollouts').where({ component: 'agent', state: 'running' }).count('* as n').first(),
    );
    expect(Number(running?.['n'])).to.equal(1);
  });
});
