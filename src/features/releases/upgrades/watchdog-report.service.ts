import type { DeviceHub } from '../../../hub/index.ts';
import type { DetachedAgentContext } from '../../../platform/context.ts';
import { UpgradableComponent, type WatchdogReport } from '../../../protocol/index.ts';
import { recordAgentState } from '../../devices/index.ts';

/** What the watchdog of a device reports over HTTP, also while its agent cannot report anything. */
export async function receiveWatchdogReport(
  ctx: DetachedAgentContext,
  { updates, agentState, message, watchdogVersion }: WatchdogReport,
  hub: DeviceHub,
): Promise<{ ok: true }> {
  const { deviceId } = ctx.agent;
  const isNews = await ctx.withTenant(({ tx }) =>
    recordAgentState(tx, deviceId, { state: agentState, message: message ?? null, watchdogVersion }),
  );
  if (isNews) hub.devicesChanged([deviceId]);
  for (const update of updates) {
    const component = UpgradableComponent.safeParse(update.component);
    // One that this server does not know keeps the others from nothing.
    if (component.success) await hub.upgradeReported({ ...update, component: component.data, deviceId });
  }
  return { ok: true };
}
