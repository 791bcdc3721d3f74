import { z } from 'zod';
import type { DeviceHub } from '../../hub/index.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { WatchdogReport } from '../../protocol/index.ts';
import type { ReleaseTrust } from './known-releases.ts';
import { Upgrade, UpgradeRequest, EffectiveSettings } from './upgrade.schema.ts';
import { listUpgrades, requestUpgrade, readAgentUpdates, receiveWatchdogReport } from './upgrade.service.ts';

export const targetRoutes: RouteGroup = {
  name: 'Agent updates',
  description: 'Which releases devices are upgraded to, when, and why not.',
  routes: [
    route({
      method: 'get',
      path: '/orgs/organizations/:id/agent-updates',
      summary: 'Read how the agents of an organization are upgraded',
      description:
        'Pins, policy and maintenance window with the level at which each was set. A pin of the organization overrides its partner’s; a policy or a window of the partner overrides the organization’s. They are set as `settings.agentUpdates` of the organization and of the partner.',
      access: everyScope('organizations:read'),
      params: IdParams,
      response: EffectiveSettings,
      handler: ({ ctx, params }) => readAgentUpdates(ctx, params.id),
    }),
  ],
};

export interface UpgradeRouteParts {
  hub: DeviceHub;
  releaseTrust: ReleaseTrust;
}

export const upgradeRoutes = (parts: UpgradeRouteParts): RouteGroup => ({
  name: 'Device upgrades',
  description: 'Why a device is upgraded or not, and what became of its upgrades.',
  routes: [
    route({
      method: 'get',
      path: '/devices/:id/upgrades',
      summary: 'Read why the agent of a device is not upgraded',
      description:
        'One entry for each component that the device reports, with the release that it should run and its newest attempts. `reason` names what stands in the way for longest.',
      access: everyScope('devices:read'),
      params: IdParams,
      response: z.object({ data: z.array(Upgrade) }),
      handler: ({ ctx, params }) => listUpgrades(ctx, params.id, parts),
    }),
    route({
      method: 'post',
      path: '/devices/:id/upgrades',
      summary: 'Upgrade a device now',
      description:
        'Stands in for the policy `manual`, for a wave that has not come, and for the wait after failures. Pin, maintenance window and the switch of the device still hold: an upgrade that waits for the window or for the device begins when it can, within 8 days. 409 where something else stands in the way, with `state` and `reason` in `details`.',
      access: everyScope('devices:write'),
      params: IdParams,
      body: UpgradeRequest,
      response: Upgrade,
      status: 202,
      errors: ['conflict'],
      async handler({ ctx, params, body }) {
        const { device, upgrade, isNew } = await requestUpgrade(ctx, params.id, body, parts);
        return { ...upgrade, request: { device, isNew } };
      },
      audit: {
        action: 'device.upgrade',
        resource: 'device',
        note: ({ component, current, target, request: { device } }) => ({
          orgId: device.orgId,
          resourceId: device.id,
          resourceName: device.displayName ?? device.hostname,
          details: { component, from: current, to: target },
        }),
      },
    }),
    route({
      method: 'post',
      path: '/agents/:id/watchdog-report',
      summary: 'Report as the watchdog of a device',
      description:
        'For what the agent cannot report itself: that it does not answer, that it ends again and again, and the phases of an upgrade. Repeated phases count once.',
      access: 'agent',
      unaudited: 'a report, which the history of the device’s upgrades keeps',
      transaction: false,
      params: IdParams,
      body: WatchdogReport,
      response: z.object({ ok: z.literal(true) }),
      errors: ['unavailable'],
      handler: ({ ctx, body }) => receiveWatchdogReport(ctx, body, parts.hub),
    }),
  ],
});
