import { expect } from 'chai';
import { UPGRADE_CAPABILITY } from '../../../../src/features/releases/targets/target-question.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant, MACHINE } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

const UPGRADABLE = { capabilities: [UPGRADE_CAPABILITY] };
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const;

describe('the upgrades of a device', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp();
    const keyId = newId();
    const release = (version: string, more: object = {}) => ({
      id: newId(),
      version,
      component: 'agent',
      os: 'linux',
      architecture: 'x64',
      source: 'local',
      size: 1,
      sha256: '0'.repeat(64),
      signature: 'none',
      key_id: keyId,
      is_prerelease: false,
      ...more,
    });
    await withSystem(app.server.database.pool, 'test data', async (tx) => {
      await tx('release_signing_keys').insert({
        id: keyId,
        public_key: 'none',
        sealed_private_key: 'none',
        retired_at: new Date(),
      });
      await tx('agent_releases').insert([
        release('1.0.0'),
        release('1.1.0', { promoted: true }),
        release('1.2.0-rc.1', { is_prerelease: true }),
        release('1.3.0', { os: 'windows', promoted: true }),
        release('2.0.0', { component: 'watchdog', promoted: true }),
        release('9.0.0', { component: 'helper', promoted: true }),
      ]);
    });
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const read = (deviceId: string, token = tenant.admin.token) =>
    app.call('GET', `/devices/${deviceId}/upgrades`, { token });
  const agentOf = async (deviceId: string) => (await read(deviceId)).body.data[0];
  const set = (path: string, agentUpdates: object) =>
    app.call('PATCH', path, { token: tenant.admin.token, body: { settings: { agentUpdates } } });
  const setOrganization = (agentUpdates: object) => set(`/orgs/organizations/${tenant.orgId}`, agentUpdates);

  it('are one for the agent, with the promoted release of its platform', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId, UPGRADABLE);
    const { status, body } = await read(deviceId);
    expect([status, body]).to.deep.equal([
      200,
      {
        data: [
          {
            component: 'agent',
            current: MACHINE.agentVersion,
            target: '1.1.0',
            state: 'deferred',
            reason: 'agent_offline',
            message: 'The device is not connected; 1.1.0 is offered when it connects.',
            levels: { pin: 'default', policy: 'default', window: 'default' },
          },
        ],
      },
    ]);
  });

  it('are another one for a watchdog that has reported its version', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId, { ...UPGRADABLE, agentVersion: '1.1.0' });
    await withSystem(app.server.database.pool, 'test data', (tx) =>
      tx('devices').where('id', deviceId).update({ watchdog_version: '2.0.1' }),
    );
    const { body } = await read(deviceId);
    expect(
      body.data.map(({ component, current, target, state, reason }: Record<string, unknown>) => [
        component,
        current,
        target,
        state,
        reason,
      ]),
    ).to.deep.equal([
      ['agent', '1.1.0', '1.1.0', 'up_to_date', null],
      ['watchdog', '2.0.1', '2.0.0', 'blocked', 'newer_than_target'],
    ]);
  });

  it('have a target for the platform of the device only', async () => {
    const [windows, mac, old] = [
      await buildDevice(app, tenant.orgId, { ...UPGRADABLE, osType: 'windows' }),
      await buildDevice(app, tenant.orgId, { ...UPGRADABLE, osType: 'macos' }),
      await buildDevice(app, tenant.orgId, { ...UPGRADABLE, architecture: 'x86' }),
    ];
    expect((await agentOf(windows.deviceId)).target).to.equal('1.3.0');
    for (const { deviceId } of [mac, old]) {
      expect(await agentOf(deviceId)).to.include({ target: null, state: 'blocked', reason: 'no_release' });
    }
    await setOrganization({ pins: { agent: '1.2.0-rc.1' } });
    expect(await agentOf(windows.deviceId)).to.include({
      target: '1.2.0-rc.1',
      reason: 'no_build_for_platform',
    });
  });

  it('follow the pins of both levels', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId, UPGRADABLE);
    await set('/orgs/partners/me', { pins: { agent: '1.0.0' } });
    expect(await agentOf(deviceId)).to.include({ target: '1.0.0', state: 'up_to_date', reason: 'pinned' });
    await setOrganization({ pins: { agent: '1.2.0-rc.1' } });
    expect(await agentOf(deviceId)).to.include({ target: '1.2.0-rc.1', reason: 'agent_offline' });
    await setOrganization({ pins: { agent: '1.0.7' } });
    expect(await agentOf(deviceId)).to.include({ target: '1.0.7', reason: 'no_build_for_platform' });
    await setOrganization({ pins: { agent: 'latest' } });
    expect(await agentOf(deviceId)).to.deep.include({
      target: '1.1.0',
      levels: { pin: 'organization', policy: 'default', window: 'default' },
    });
  });

  it('follow the policy and the window, which says until when', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId, UPGRADABLE);
    const opening = new Date(Date.now() + 3 * 86_400_000);
    opening.setUTCHours(1, 0, 0, 0);
    const days = [DAYS[opening.getUTCDay()]];
    await set('/orgs/partners/me', { maintenanceWindow: { days, start: '01:00', end: '02:00' } });
    expect(await agentOf(deviceId)).to.deep.include({
      state: 'deferred',
      reason: 'outside_window',
      nextAt: opening.toISOString(),
      levels: { pin: 'default', policy: 'default', window: 'partner' },
    });
    await setOrganization({ policy: 'staged' });
    expect(await agentOf(deviceId)).to.include({ state: 'deferred', reason: 'wave_not_reached' });
    await set('/orgs/partners/me', { policy: 'manual' });
    expect(await agentOf(deviceId)).to.include({ state: 'blocked', reason: 'policy_manual' });
  });

  it('follow what the device is able and allowed to do, and whether it is connected', async () => {
    const device = await buildDevice(app, tenant.orgId);
    expect(await agentOf(device.deviceId)).to.include({ state: 'blocked', reason: 'capability_missing' });
    const agent = await connectDevice(app, device.token, UPGRADABLE);
    await eventually(
      () => agentOf(device.deviceId),
      ({ target, state, reason }) => target === '1.1.0' && state === 'offered' && reason === null,
    );
    const { status } = await app.call('PATCH', `/devices/${device.deviceId}`, {
      token: tenant.admin.token,
      body: { autoUpdate: false },
    });
    expect(status).to.equal(200);
    expect(await agentOf(device.deviceId)).to.include({ state: 'blocked', reason: 'auto_update_off' });
    agent.close();
  });

  it('are shown to every reader of the device, and to nobody else', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId, UPGRADABLE);
    const system = await buildPerson(app, { scope: 'system' });
    for (const { token } of [tenant.admin, tenant.technician, system]) {
      expect((await read(deviceId, token)).body.data).to.have.length(1);
    }
    const other = await buildTenant(app);
    expect((await read(deviceId, other.admin.token)).status).to.equal(404);
    expect((await read(newId())).status).to.equal(404);
  });
});
