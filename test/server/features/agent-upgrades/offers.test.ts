import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { query } from '../../../support/releases/release-support.ts';
import {
  createUpgradeGround,
  offered,
  type UpgradeGround,
  versions,
} from '../../../support/agent-upgrades/upgrade-ground.ts';

describe('what a heartbeat offers', () => {
  let ground: UpgradeGround;

  before(async () => {
    ground = await createUpgradeGround();
  });
  after(async () => ground.close());
  beforeEach(async () => {
    await ground.set({});
    await ground.promote('1.1.0');
  });

  it('is the promoted release, with what the agent needs to download and trust it', async () => {
    const { agent } = await ground.device();
    const [upgrade] = await offered(agent, (list) => list.length > 0);
    const [stored] = await query<Record<string, unknown>>(
      ground.app,
      `select sha256, size, signature, key_id from agent_releases where version = '1.1.0'`,
    );
    expect(upgrade).to.deep.equal({
      component: 'agent',
      version: '1.1.0',
      url: upgrade!.url,
      sha256: stored!.sha256,
      size: stored!.size,
      signature: stored!.signature,
      keyId: stored!.key_id,
    });
    const file = await fetch(upgrade!.url);
    expect([file.status, file.headers.get('etag')]).to.deep.equal([200, `"${upgrade!.sha256}"`]);
    // Until the device reports something, it is offered again.
    expect(versions((await agent.heartbeat()).upgrade)).to.equal('1.1.0');
  });

  it('is the same over HTTP', async () => {
    const { deviceId, token, agent } = await ground.device();
    agent.close();
    const beat = () =>
      ground.app.call('POST', `/agents/${deviceId}/heartbeat`, {
        token,
        body: { at: new Date().toISOString(), agentVersion: '1.0.0' },
      });
    const { body } = await eventually(beat, ({ body: { upgrade } }) => upgrade?.length === 1);
    expect(body.upgrade[0]).to.include({ component: 'agent', version: '1.1.0' });
  });

  it('follows pins, policies, switches and promotions from one heartbeat to the next', async () => {
    const { agent, deviceId } = await ground.device();
    const { token } = ground.tenant.admin;
    await offered(agent, (list) => versions(list) === '1.1.0');
    await ground.set({ pins: { agent: '1.0.0' } });
    await offered(agent, (list) => list.length === 0);
    await ground.set({ policy: 'manual' });
    await ground.publish('1.2.0');
    await ground.promote('1.2.0');
    await ground.set({ pins: { agent: 'latest' } });
    expect(versions(await offered(agent, (list) => list.length > 0))).to.equal('1.2.0');
    const switched = await ground.app.call('PATCH', `/devices/${deviceId}`, {
      token,
      body: { autoUpdate: false },
    });
    expect(switched.status).to.equal(200);
    expect(await offered(agent, (list) => list.length === 0)).to.deep.equal([]);
  });

  it('is nothing for an agent that cannot install it, that says no, or whose release is not signed by this server', async () => {
    await ground.promote('1.1.0');
    const { agent } = await ground.device();
    await offered(agent, (list) => versions(list) === '1.1.0');
    expect((await agent.heartbeat({ autoUpdate: false })).upgrade).to.deep.equal([]);
    expect(versions((await agent.heartbeat({ autoUpdate: true })).upgrade)).to.equal('1.1.0');
    await query(ground.app, `update agent_releases set size = size + 1 where version = '1.1.0'`);
    await offered(agent, (list) => list.length === 0);
    await query(ground.app, `update agent_releases set size = size - 1 where version = '1.1.0'`);
    await offered(agent, (list) => list.length === 1);
    const plain = await buildDevice(ground.app, ground.tenant.orgId);
    const unable = await connectDevice(ground.app, plain.token, { capabilities: [] });
    expect((await unable.heartbeat()).upgrade).to.deep.equal([]);
  });

  it('is one component at a time: the agent first, and nothing while an upgrade is under way', async () => {
    await ground.publish('2.0.0', 'watchdog/linux/x64').catch(() => undefined);
    await ground.promote('2.0.0');
    await ground.promote('1.1.0');
    const { agent, deviceId } = await ground.device();
    const facts = { watchdogVersion: '1.9.0' };
    const [first, ...none] = await offered(agent, (list) => list.length > 0, facts);
    expect([first!.component, none.length]).to.deep.equal(['agent', 0]);
    await eventually(
      () => ground.read(deviceId),
      (list) => list[1]?.reason === 'one_at_a_time',
    );
    const attemptId = newId();
    const report = (phase: string) =>
      agent.send('update:status', { component: 'agent', targetVersion: '1.1.0', phase, attemptId });
    expect(await report('downloading')).to.deep.equal({ ok: true });
    expect((await agent.heartbeat(facts)).upgrade).to.deep.equal([]);
    expect(await report('completed')).to.deep.equal({ ok: true });
    const after = await offered(agent, (list) => list.length > 0, { ...facts, agentVersion: '1.1.0' });
    expect(after.map(({ component, version }) => [component, version])).to.deep.equal([
      ['watchdog', '2.0.0'],
    ]);
  });

  it('waits for the maintenance window', async () => {
    const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
    const far = days[(new Date().getUTCDay() + 3) % 7]!;
    const { agent } = await ground.device();
    await ground.set({ maintenanceWindow: { days: [far], start: '10:00', end: '11:00' } });
    await offered(agent, (list) => list.length === 0);
    await ground.set({ maintenanceWindow: { days, start: '00:00', end: '23:59' } });
    await offered(agent, (list) => list.length === 1);
  });

  it('is nothing after three failures of a version, until a day later, a newer version, or a person', async () => {
    const { agent, deviceId } = await ground.device();
    const { token } = ground.tenant.admin;
    await offered(agent, (list) => list.length > 0);
    for (let failure = 0; failure < 3; failure += 1) {
      const attemptId = newId();
      for (const phase of ['downloading', 'failed']) {
        await agent.send('update:status', {
          component: 'agent',
          targetVersion: '1.1.0',
          phase,
          attemptId,
          ...(phase === 'failed' ? { code: 'CHECKSUM_MISMATCH', error: 'The file is not the one.' } : {}),
        });
      }
    }
    const [state] = await eventually(
      () => ground.read(deviceId),
      ([one]) => one?.reason === 'retry_later',
    );
    expect(state).to.include({ state: 'failed', target: '1.1.0' });
    expect(Date.parse(String(state?.nextAt)) - Date.now()).to.be.within(23.9 * 3_600_000, 24 * 3_600_000);
    expect(state?.history).to.have.length(3);
    await offered(agent, (list) => list.length === 0);
    const asked = await ground.app.call('POST', `/devices/${deviceId}/upgrades`, { token, body: {} });
    expect([asked.status, asked.body.state]).to.deep.equal([202, 'offered']);
    await offered(agent, (list) => list.length === 1);
  });

  it('is nothing for an hour after a rollback, unless a person asks', async () => {
    const { agent, deviceId } = await ground.device();
    const { token } = ground.tenant.admin;
    await offered(agent, (list) => list.length > 0);
    const attemptId = newId();
    for (const phase of ['restarting', 'rolled_back']) {
      const code = phase === 'rolled_back' ? { code: 'CRASHED', error: 'The release ended 2 times.' } : {};
      await agent.send('update:status', {
        component: 'agent',
        targetVersion: '1.1.0',
        phase,
        attemptId,
        ...code,
      });
    }
    await offered(agent, (list) => list.length === 0);
    const [state] = await eventually(
      () => ground.read(deviceId),
      ([one]) => one?.reason === 'retry_later',
    );
    expect(state).to.include({ state: 'rolled_back', target: '1.1.0' });
    expect(state?.message).to.match(
      /^The upgrade of the agent to 1\.1\.0 was rolled back \(CRASHED\): The release ended 2 times\. It is tried again at /,
    );
    expect(Date.parse(String(state?.nextAt)) - Date.now()).to.be.within(59 * 60_000, 60 * 60_000);
    expect(
      (await ground.app.call('POST', `/devices/${deviceId}/upgrades`, { token, body: {} })).status,
    ).to.equal(202);
    const requested = await offered(agent, (list) => list.length === 1);
    expect(requested[0]).to.include({ version: '1.1.0', requested: true });
  });
});
