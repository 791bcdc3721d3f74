import { expect } from 'chai';
import type { WatchdogReport } from '../../../../src/protocol/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, graceOver } from '../../../support/fake-device.ts';
import { query } from '../../../support/releases/release-support.ts';
import {
  CAPABLE,
  createUpgradeGround,
  type UpgradableDevice,
  type UpgradeGround,
} from '../../../support/agent-upgrades/upgrade-ground.ts';

const NEVER = '00000000-0000-4000-8000-000000000000';

describe('what a device reports about its upgrades', () => {
  let ground: UpgradeGround;
  let device: UpgradableDevice;
  let attemptId: string;

  before(async () => {
    ground = await createUpgradeGround();
  });
  after(async () => ground.close());
  beforeEach(async () => {
    device = await ground.device();
    attemptId = newId();
    await device.agent.heartbeat();
    await statusIs('online');
  });

  const report = (phase: string, more: object = {}) =>
    device.agent.send('update:status', {
      component: 'agent',
      targetVersion: '1.1.0',
      phase,
      attemptId,
      ...more,
    });
  const refused = async (more: object) => {
    const answer = (await report('downloading', more)) as { ok: boolean; error?: { code: string } };
    expect([answer.ok, answer.error?.code], JSON.stringify(more).slice(0, 60)).to.deep.equal([
      false,
      'VALIDATION_FAILED',
    ]);
  };
  const watchdog = (more: Partial<WatchdogReport>, { deviceId, token }: EnrolledDevice = device) =>
    ground.app.call('POST', `/agents/${deviceId}/watchdog-report`, {
      token,
      body: { watchdogVersion: '1.0.0', agentState: 'running', updates: [], ...more },
    });
  const record = async () =>
    (await ground.app.call('GET', `/devices/${device.deviceId}`, { token: ground.tenant.admin.token })).body;
  const statusIs = async (status: string) => {
    await ground.app.settle();
    const one = await record();
    expect(one.status).to.equal(status);
    return one;
  };
  const alerts = async (status = 'active') =>
    (
      await ground.app.call(
        'GET',
        `/alerts?kind=upgrade_failed&status=${status}&deviceId=${device.deviceId}`,
        {
          token: ground.tenant.admin.token,
        },
      )
    ).body.data;

  it('shows that it is updating from the first phase to the last, live on dashboards', async () => {
    const dashboard = await connectDashboard(ground.app, ground.tenant.admin.token);
    const seen: string[] = [];
    dashboard.socket.on('devices:delta', ({ changed }: { changed: { id: string; status?: string }[] }) => {
      for (const one of changed) {
        if (one.id === device.deviceId && one.status !== undefined) seen.push(one.status);
      }
    });
    await dashboard.socket.emitWithAck('devices:subscribe', { orgId: ground.tenant.orgId });
    await report('downloading');
    await eventually(
      () => seen,
      (list) => list.includes('updating'),
    );
    device.agent.close();
    await graceOver(ground.app, device.deviceId);
    const gone = await record();
    expect(gone.presence).to.include({ state: 'disconnected', reason: 'updating' });
    expect(gone.status).to.equal('updating');
    const back = await connectDevice(ground.app, device.token, { ...CAPABLE, agentVersion: '1.1.0' });
    await back.heartbeat();
    await ground.app.settle();
    // The version has arrived, which is not the end: the watchdog says whether it proves itself.
    const [trial] = await ground.read(device.deviceId);
    expect(trial).to.include({ current: '1.1.0', target: '1.1.0', state: 'trial', reason: null });
    expect(trial?.history[0]).to.include({ state: 'trial', fromVersion: '1.0.0', finishedAt: null });
    expect((await record()).status).to.equal('updating');
    await back.send('update:status', {
      component: 'agent',
      targetVersion: '1.1.0',
      phase: 'completed',
      attemptId,
    });
    await eventually(
      () => seen,
      (list) => list.at(-1) === 'online',
    );
    const [proven] = await ground.read(device.deviceId);
    expect(proven).to.include({ state: 'up_to_date' });
    expect(proven?.history[0]).to.include({ state: 'completed', targetVersion: '1.1.0' });
    back.close();
    dashboard.close();
  });

  it('is on trial from the moment in which the version arrives, whatever the agent says, until a day has passed', async () => {
    await report('restarting');
    const back = await connectDevice(ground.app, device.token, { ...CAPABLE, agentVersion: '1.1.0' });
    const state = async () => (await ground.read(device.deviceId))[0];
    expect((await state())?.state).to.equal('trial');
    await ground.app.settle();
    await back.heartbeat();
    // A trial lasts for hours where the server does not serve the device.
    for (const [age, expected] of [
      ['23 hours', 'trial'],
      ['25 hours', 'up_to_date'],
    ] as const) {
      await query(
        ground.app,
        `update device_upgrades set updated_at = now() - ?::interval where device_id = ?`,
        [age, device.deviceId],
      );
      await ground.app.settle();
      expect((await state())?.state, age).to.equal(expected);
    }
    // Nobody has said that the release is healthy, so it does not count as that.
    expect((await state())?.history[0]).to.include({ state: 'failed', code: 'ABANDONED' });
    back.close();
  });

  it('waits as long as it says, and is not told that nothing stands in the way', async () => {
    const state = async () => (await ground.read(device.deviceId))[0];
    await report('failed', { code: 'NO_SPACE', error: '/opt has 5 bytes free; the upgrade needs 900.' });
    expect(await state()).to.include({
      state: 'offered',
      message:
        'The upgrade of the agent to 1.1.0 has failed (NO_SPACE): /opt has 5 bytes free; the upgrade needs 900. It is tried again with the next heartbeat.',
    });
    attemptId = newId();
    await report('failed', { code: 'NO_SPACE', error: 'Full.', retryInSeconds: 120 });
    const waits = await state();
    expect(waits).to.include({ state: 'failed', reason: 'retry_later' });
    expect(Date.parse(String(waits?.nextAt)) - Date.now()).to.be.within(100_000, 120_000);
    expect(waits?.message).to.equal(
      `The upgrade of the agent to 1.1.0 has failed (NO_SPACE): Full. It is tried again at ${waits?.nextAt}.`,
    );
    attemptId = newId();
    // An agent of an earlier release does not say how long it waits.
    await report('failed', { code: 'CHECKSUM_MISMATCH', error: 'The file is another one.\nline 2' });
    expect((await state())?.message).to.match(
      /^The upgrade of the agent to 1\.1\.0 has failed \(CHECKSUM_MISMATCH\): The file is another one\. It is tried again at /,
    );
    attemptId = newId();
    await refused({ retryInSeconds: -1 });
    await refused({ retryInSeconds: 1e12 });
  });

  it('is offline after five minutes without an end', async () => {
    await report('restarting');
    await statusIs('updating');
    device.agent.close();
    await graceOver(ground.app, device.deviceId);
    expect((await record()).presence.state).to.equal('disconnected');
    await query(
      ground.app,
      `update device_upgrades set started_at = now() - interval '5 minutes' where device_id = ?`,
      [device.deviceId],
    );
    expect((await statusIs('offline')).presence.reason).to.equal('updating');
  });

  it('leaves maintenance as it is', async () => {
    const { token } = ground.tenant.admin;
    await ground.app.call('POST', `/devices/${device.deviceId}/maintenance`, {
      token,
      body: { enabled: true },
    });
    await report('downloading');
    await report('completed');
    expect((await record()).status).to.equal('maintenance');
  });

  it('counts once however often and in whatever order it comes', async () => {
    for (const phase of [
      'installing',
      'downloading',
      'installing',
      'verifying',
      'restarting',
      'downloading',
    ]) {
      expect(await report(phase)).to.deep.equal({ ok: true });
    }
    const history = await ground.history(device.deviceId);
    expect(history.map(({ state }) => state)).to.deep.equal(['restarting']);
    await report('failed', { code: 'DISK_FULL', error: 'No space left.' });
    await report('installing');
    const [failed, ...others] = await ground.history(device.deviceId);
    expect(failed).to.include({ state: 'failed', code: 'DISK_FULL', error: 'No space left.' });
    expect([others.length, failed?.finishedAt === null]).to.deep.equal([0, false]);
    await statusIs('online');
  });

  it('raises an alert when it was rolled back, which ends with the next upgrade that succeeds', async () => {
    await report('restarting', { fromVersion: '1.0.0' });
    await watchdog({
      agentState: 'running',
      updates: [
        {
          component: 'agent',
          targetVersion: '1.1.0',
          phase: 'rolled_back',
          attemptId,
          code: 'NOT_HEALTHY',
          error: 'It never connected.',
        },
      ],
    });
    const [alert, ...more] = await eventually(alerts, (list) => list.length > 0);
    expect(more).to.deep.equal([]);
    expect(alert.title).to.include('the upgrade of the agent to 1.1.0 was rolled back');
    expect(alert.message).to.equal('The agent runs 1.0.0 again. Reason: It never connected.');
    expect(alert.details).to.deep.equal({
      component: 'agent',
      fromVersion: '1.0.0',
      targetVersion: '1.1.0',
      code: 'NOT_HEALTHY',
      error: 'It never connected.',
    });
    // The watchdog is another component.
    await report('completed', { component: 'watchdog', attemptId: newId() });
    expect(await alerts()).to.have.length(1);
    await report('completed', { attemptId: newId(), targetVersion: '1.2.0' });
    expect(
      (
        await eventually(
          () => alerts('resolved'),
          (list) => list.length === 1,
        )
      )[0].resolution,
    ).to.equal('The agent was upgraded.');
  });

  it('says over HTTP how the agent is, also with nothing to report of upgrades', async () => {
    expect((await record()).agentState).to.equal(null);
    expect((await watchdog({ agentState: 'crash_loop', message: 'Exit code 1' })).body).to.deep.equal({
      ok: true,
    });
    const { agentState, watchdogVersion } = await record();
    expect([agentState.state, agentState.message, watchdogVersion]).to.deep.equal([
      'crash_loop',
      'Exit code 1',
      '1.0.0',
    ]);
    await watchdog({ agentState: 'crash_loop', message: 'Exit code 2' });
    expect((await record()).agentState).to.deep.equal({ ...agentState, message: 'Exit code 2' });
  });

  it('reaches no other device, whatever it claims', async () => {
    const other = await ground.device();
    await report('downloading');
    const answer = await other.agent.send('update:status', {
      component: 'agent',
      targetVersion: '1.1.0',
      phase: 'rolled_back',
      attemptId,
    });
    expect(answer).to.deep.equal({ ok: true });
    expect((await ground.history(device.deviceId)).map(({ state }) => state)).to.deep.equal(['downloading']);
    expect((await watchdog({}, { ...device, token: other.token })).status).to.be.oneOf([401, 403, 404]);
    expect((await watchdog({}, { ...device, deviceId: NEVER })).status).to.be.oneOf([401, 403, 404]);
  });

  it('is refused if it is nonsense, and keeps other reports from nothing', async () => {
    await refused({ component: 'helper' });
    await refused({ attemptId: 'mine' });
    await refused({ phase: 'offered' });
    await refused({ phase: 'done' });
    expect(await ground.history(device.deviceId)).to.deep.equal([]);
    const { status } = await watchdog({
      updates: [
        { component: 'helper', targetVersion: '1', phase: 'failed' },
        { component: 'agent', targetVersion: '1.1.0', phase: 'downloading', attemptId },
      ],
    });
    expect(status).to.equal(200);
    expect(await ground.history(device.deviceId)).to.have.length(1);
    await report('failed', {
      attemptId: newId(),
      targetVersion: 'x'.repeat(5000),
      error: 'e'.repeat(50_000),
    });
    for (const { targetVersion, error } of await ground.history(device.deviceId)) {
      expect([targetVersion.length <= 50, (error ?? '').length <= 2000]).to.deep.equal([true, true]);
    }
  });

  it('is bounded: a device that reports new attempts without end is slowed down, and recorded twenty times an hour', async () => {
    let refused = 0;
    for (let count = 0; count < 70; count += 1) {
      const answer = (await report('failed', { attemptId: newId() })) as { ok: boolean };
      if (!answer.ok) refused += 1;
    }
    expect(refused).to.be.at.least(10);
    const [{ rows } = { rows: 0 }] = await query<{ rows: number }>(
      ground.app,
      'select count(*)::int as rows from device_upgrades where device_id = ?',
      [device.deviceId],
    );
    expect(rows).to.equal(20);
  });

  it('is no affair of another tenant', async () => {
    await report('downloading');
    const stranger = await buildTenant(ground.app);
    const path = `/devices/${device.deviceId}/upgrades`;
    const { token } = stranger.admin;
    expect((await ground.app.call('GET', path, { token })).status).to.equal(404);
    expect((await ground.app.call('POST', path, { token, body: {} })).status).to.equal(404);
  });
});
