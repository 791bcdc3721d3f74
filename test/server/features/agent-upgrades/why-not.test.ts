import { expect } from 'chai';
import type { Target } from '../../../../src/features/releases/release-name.ts';
import { ReleaseKeys } from '../../../../src/features/releases/release-keys.ts';
import { AgentRelease } from '../../../../src/features/releases/release.model.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { UPGRADE_CAPABILITY } from '../../../../src/protocol/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { registerVersions } from '../../../support/releases/registered-versions.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant, MACHINE } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, TEST_ENCRYPTION_KEY, type TestApp } from '../../../support/test-app.ts';

const UPGRADABLE = { capabilities: [UPGRADE_CAPABILITY] };
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const;

describe('the upgrades of a device', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await sharedTestApp();
    await publish(
      { version: '1.0.0' },
      { version: '1.1.0', promoted: true },
      { version: '1.2.0-rc.1' },
      { version: '1.3.0', os: 'windows', promoted: true },
      { version: '2.0.0', component: 'watchdog', promoted: true },
      { version: '9.0.0', component: 'helper', promoted: true },
    );
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const keys = new ReleaseKeys(createEncryptor({ current: TEST_ENCRYPTION_KEY, old: [] }));
  const publish = (...releases: (Partial<Target> & { version: string; promoted?: true })[]) =>
    withSystem(app.server.database.pool, 'test data', async (tx) => {
      for (const { promoted = false, ...given } of releases) {
        const name = { component: 'agent', os: 'linux', architecture: 'x64', ...given } as const;
        const manifest = { ...name, size: 1, sha256: '0'.repeat(64) };
        await AgentRelease.query(tx).insert({
          ...manifest,
          ...(await keys.sign(tx, manifest)),
          source: 'local',
          isPrerelease: given.version.includes('-'),
          promoted,
        });
      }
    });

  const read = (deviceId: string, token = tenant.admin.token) =>
    app.call('GET', `/devices/${deviceId}/upgrades`, { token });
  const agentOf = async (deviceId: string) => (await read(deviceId)).body.data[0];
  const set = (path: string, agentUpdates: object) =>
    app.call('PATCH', path, { token: tenant.admin.token, body: { settings: { agentUpdates } } });
  const setOrganization = (agentUpdates: object) => set(`/orgs/organizations/${tenant.orgId}`, agentUpdates);

  it('follow the handshake at once, also before it is stored', async () => {
    const { deviceId, token } = await buildDevice(app, tenant.orgId, { agentVersion: '0.9.0' });
    expect((await agentOf(deviceId)).reason).to.equal('capability_missing');
    const agent = await connectDevice(app, token, { ...UPGRADABLE, agentVersion: '1.0.0' });
    expect(await agentOf(deviceId)).to.include({ current: '1.0.0', state: 'offered', reason: null });
    const device = (await app.call('GET', `/devices/${deviceId}`, { token: tenant.admin.token })).body;
    expect(device).to.include({ agentVersion: '1.0.0' });
    expect(device.capabilities).to.deep.equal([UPGRADE_CAPABILITY]);
    agent.close();
  });

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
            history: [],
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

  it('are blocked if the signature of the release does not hold, and not after the key was replaced', async () => {
    const { deviceId: id } = await buildDevice(app, tenant.orgId, { ...UPGRADABLE, agentVersion: '1.0.0' });
    const agents = `/orgs/organizations/${tenant.orgId}`;
    await registerVersions(app, '1.4.0');
    await set(agents, { pins: { agent: '1.4.0' } });
    expect((await agentOf(id)).reason).to.equal('no_build_for_platform');
    await withSystem(app.server.database.pool, 'test', (tx) => keys.rotate(tx, { vouched: true }));
    await publish({ version: '1.4.0' });
    expect((await agentOf(id)).reason, 'of a key that is new').to.equal('agent_offline');
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('agent_releases')
        .where({ version: '1.4.0' })
        .update({ sha256: '1'.repeat(64) }),
    );
    expect(await agentOf(id)).to.include({
      state: 'blocked',
      reason: 'signature_untrusted',
      target: '1.4.0',
    });
  });

  it('follow the pins of both levels', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId, UPGRADABLE);
    await set('/orgs/partners/me', { pins: { agent: '1.0.0' } });
    expect(await agentOf(deviceId)).to.include({ target: '1.0.0', state: 'up_to_date', reason: 'pinned' });
    await setOrganization({ pins: { agent: '1.2.0-rc.1' } });
    expect(await agentOf(deviceId)).to.include({ target: '1.2.0-rc.1', reason: 'agent_offline' });
    // Of a platform that no device here has.
    await registerVersions(app, '1.0.7');
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
