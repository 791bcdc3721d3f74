import type { DeviceHub } from '../../hub/index.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { Heartbeat, HeartbeatAck } from '../../protocol/index.ts';

export function agentRoutes({ hub }: { hub: DeviceHub }): RouteGroup {
  return {
    name: 'Agents',
    description: 'What agents do over plain HTTP. The rest goes over their socket.',
    routes: [
      route({
        method: 'post',
        path: '/agents/:id/heartbeat',
        summary: 'Report without a socket',
        description:
          'For machines whose socket is blocked: the body and the answer of the socket’s `heartbeat`. The device is `online` while these come, and `offline` when none came for two and a half intervals; its presence stays `disconnected`, for nobody can ask it anything.',
        access: 'agent',
        // Answered from memory; the database is written behind.
        transaction: false,
        params: IdParams,
        body: Heartbeat,
        response: HeartbeatAck,
        errors: ['device_busy', 'unavailable'],
        handler: ({ ctx, body }) => hub.heartbeat(ctx.agent, body, ctx.client.ip),
      }),
    ],
  };
}
