import type { Context } from '../../../platform/context.ts';
import { type Device, readDevice } from '../../devices/index.ts';
import { readAgentUpdates } from './agent-updates.service.ts';
import { knownReleases } from './known-releases.ts';
import { resolveTarget } from './resolve-target.ts';
import type { PinnedComponent, Upgrade } from './target.schema.ts';

/** What the components that a device reports should run, and why they do not. */
export async function listUpgrades(ctx: Context, deviceId: string): Promise<{ data: Upgrade[] }> {
  const device = await readDevice(ctx, deviceId);
  const settings = await readAgentUpdates(ctx, device.orgId);
  const releases = await knownReleases(ctx.tx, device, settings);
  const connected = device.presence.state === 'connected';
  const data = reportedVersions(device).map(({ component, current }) => {
    const { nextAt, ...resolution } = resolveTarget({
      component,
      current,
      device: { ...device, connected },
      settings,
      releases,
      // Nothing rolls releases out in waves yet.
      wave: 'not_reached',
      byHand: false,
      now: new Date(),
    });
    return {
      component,
      current,
      ...resolution,
      ...(nextAt === undefined ? {} : { nextAt: nextAt.toISOString() }),
    };
  });
  return { data };
}

function reportedVersions({
  agentVersion,
  watchdogVersion,
}: Device): { component: PinnedComponent; current: string }[] {
  return [
    { component: 'agent', current: agentVersion },
    ...(watchdogVersion === null ? [] : [{ component: 'watchdog' as const, current: watchdogVersion }]),
  ];
}
