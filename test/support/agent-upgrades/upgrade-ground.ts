import type { Upgrade as DeviceUpgrade } from '../../../src/features/agent-upgrades/upgrade.schema.ts';
import { UPGRADE_CAPABILITY, type Upgrade } from '../../../src/protocol/index.ts';
import { eventually } from '../eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../factories.ts';
import { connectDevice, type FakeDevice } from '../fake-device.ts';
import type { TestApp, TestAppOptions } from '../test-app.ts';
import { createReleaseBench, type ReleaseBench, upload } from '../releases/release-support.ts';

/** A server with agent 1.1.0 promoted, and devices that run 1.0.0. */
export interface UpgradeGround extends ReleaseBench {
  /** Connects a device, by default to this server. */
  device(options?: { orgId?: string; app?: TestApp; agentVersion?: string }): Promise<UpgradableDevice>;
  tenant: Awaited<ReturnType<typeof buildTenant>>;
  publish(version: string, platform?: string): Promise<void>;
  promote(version: string): Promise<void>;
  set(agentUpdates: object): Promise<void>;
  /** `GET /devices/:id/upgrades`: one entry for each component. */
  read(deviceId: string): Promise<DeviceUpgrade[]>;
  history(deviceId: string): Promise<DeviceUpgrade['history']>;
}

export type UpgradableDevice = EnrolledDevice & { agent: FakeDevice };

export const CAPABLE = { capabilities: [UPGRADE_CAPABILITY] };

export async function createUpgradeGround(options: TestAppOptions = {}): Promise<UpgradeGround> {
  const bench = await createReleaseBench(options);
  const tenant = await buildTenant(bench.app);
  const published = async (version: string, platform = 'agent/linux/x64') => {
    const { status, body } = await upload(bench, { version, platform });
    if (status !== 201) throw new Error(`${version} was not published: ${JSON.stringify(body)}`);
  };
  await published('1.0.0');
  await published('1.1.0');
  const { token } = tenant.admin;
  const read = async (deviceId: string): Promise<DeviceUpgrade[]> =>
    (await bench.app.call('GET', `/devices/${deviceId}/upgrades`, { token })).body.data;
  return {
    ...bench,
    tenant,
    publish: published,
    async promote(version) {
      const answer = await bench.app.call('POST', '/agent-versions/promote', {
        token: bench.admin.token,
        body: { version },
      });
      if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
    },
    async set(agentUpdates) {
      const answer = await bench.app.call('PATCH', `/orgs/organizations/${tenant.orgId}`, {
        token,
        body: { settings: { agentUpdates } },
      });
      if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
    },
    async device({ orgId = tenant.orgId, app = bench.app, agentVersion = '1.0.0' } = {}) {
      const enrolled = await buildDevice(bench.app, orgId, { ...CAPABLE, agentVersion });
      const agent = await connectDevice(app, enrolled.token, { ...CAPABLE, agentVersion });
      return { ...enrolled, agent };
    },
    read,
    history: async (deviceId) => (await read(deviceId))[0]?.history ?? [],
  };
}

/** What the next heartbeats offer, once it is what was expected or after some seconds. */
export const offered = (
  agent: FakeDevice,
  isExpected: (upgrade: Upgrade[]) => boolean,
  more: object = {},
): Promise<Upgrade[]> => eventually(async () => (await agent.heartbeat(more)).upgrade, isExpected);

export const versions = (upgrade: Upgrade[]) => upgrade.map(({ version }) => version).join();
