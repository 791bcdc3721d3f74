import { UPGRADE_CAPABILITY } from '../../../src/protocol/index.ts';
import { type Tx, withSystem } from '../../../src/platform/db/transaction.ts';
import { newId } from '../../../src/platform/ids.ts';
import { buildOrganization, buildPartner, buildSite } from '../factories.ts';
import type { TestApp } from '../test-app.ts';

/** Devices in numbers, as rows: enrolling thousands would take the time of the test. */

export interface FleetDevice {
  id: string;
  orgId: string;
  osType: string;
  architecture: string;
}

export interface FleetOptions {
  size: number;
  organizations?: number;
  /** Given in turn. */
  platforms?: readonly (readonly [osType: string, architecture: string])[];
  settings?: object;
  /** Of the devices. */
  row?: Record<string, unknown>;
}

export const STAGED = { agentUpdates: { policy: 'staged' } };
const LINUX = [['linux', 'x64']] as const;

/** Devices that are connected and run 1.0.0, spread evenly over the organizations of a new partner. */
export async function buildFleet(
  app: TestApp,
  { size, organizations = 1, platforms = LINUX, settings = STAGED, row = {} }: FleetOptions,
): Promise<FleetDevice[]> {
  const partnerId = await buildPartner(app);
  const homes = await Promise.all(
    Array.from({ length: organizations }, async () => {
      const orgId = await buildOrganization(app, partnerId, { settings });
      return { orgId, siteId: await buildSite(app, orgId) };
    }),
  );
  const devices = Array.from({ length: size }, (_device, at) => {
    const home = homes[at % homes.length]!;
    const [osType, architecture] = platforms[at % platforms.length]!;
    return { id: newId(), ...home, osType, architecture };
  });
  await inSystem(app, async (tx) => {
    for (let at = 0; at < devices.length; at += 2000) {
      const part = devices.slice(at, at + 2000);
      await tx.batchInsert(
        'devices',
        part.map(({ id, orgId, siteId, osType, architecture }, index) => ({
          id,
          org_id: orgId,
          site_id: siteId,
          hostname: `fleet-${at + index}`,
          os_type: osType,
          os_version: '1',
          architecture,
          agent_version: '1.0.0',
          capabilities: [UPGRADE_CAPABILITY],
          enrolled_at: new Date(),
          ...row,
        })),
        1000,
      );
      await tx.raw(
        `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at)
        select id, org_id, 1, 'simulated', 'connected', now(), 'connected', now() from devices where id = any(?::uuid[])`,
        [part.map(({ id }) => id)],
      );
    }
  });
  return devices.map(({ id, orgId, osType, architecture }) => ({ id, orgId, osType, architecture }));
}

export const inSystem = <T>(app: TestApp, work: (tx: Tx) => PromiseLike<T>): Promise<T> =>
  withSystem(app.server.database.pool, 'test', work);

/** The server's own rounds, by the real time, would decide between those of a clock of one's own. */
export const stopOwnRounds = (app: TestApp) =>
  inSystem(app, (tx) =>
    tx.raw(
      `insert into job_schedules (name, cron, time_zone, next_at) values ('agent-rollouts.conduct', '* * * * *', 'UTC', 'infinity')
      on conflict (name) do update set next_at = 'infinity'`,
    ),
  );

export type End = 'completed' | 'failed' | 'rolled_back';

export interface Attempt {
  rolloutId: string;
  device: FleetDevice;
  state: End | 'downloading' | 'installing' | 'restarting';
  at: Date;
  version?: string;
}

/** Records upgrades as the server does when devices report them. A device that has the version reports it. */
export async function recordAttempts(app: TestApp, attempts: readonly Attempt[]): Promise<void> {
  const isEnd = ({ state }: Attempt) => ['completed', 'failed', 'rolled_back'].includes(state);
  await inSystem(app, async (tx) => {
    const rows = attempts.map((one) => ({
      id: newId(),
      attempt_id: newId(),
      org_id: one.device.orgId,
      device_id: one.device.id,
      component: 'agent',
      from_version: '1.0.0',
      target_version: one.version ?? '1.1.0',
      state: one.state,
      rollout_id: one.rolloutId,
      started_at: one.at,
      updated_at: one.at,
      finished_at: isEnd(one) ? one.at : null,
    }));
    await tx.batchInsert('device_upgrades', rows, 1000);
    const upgraded = attempts.filter(({ state }) => state === 'completed').map(({ device }) => device.id);
    await tx.raw(`update devices set agent_version = ? where id = any(?::uuid[])`, [
      attempts[0]?.version ?? '1.1.0',
      upgraded,
    ]);
  });
}
