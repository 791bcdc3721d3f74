import type { DeviceHub } from '../../hub/index.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { Heartbeat, HeartbeatAck, RotateTokenResponse } from '../../protocol/index.ts';
import { stageAgentToken } from '../devices/index.ts';

export function agentRoutes({ hub }: { hub: DeviceHub }): RouteGroup {
  return {
    name: 'Agents',
    description: 'Agent requests over plain HTTP. Everything else uses the socket.',
    routes: [
      route({
        method: 'post',
        path: '/agents/:id/heartbeat',
        summary: 'Send a heartbeat without a socket',
        description:
          'For devices whose socket is blocked: the body and the response of the socket’s `heartbeat`. The device is `online` while heartbeats arrive, and `offline` after two and a half intervals without one. Its presence stays `disconnected`, because it cannot be queried.',
        access: 'agent',
        unaudited: 'a report, many times a minute; a change of address is noted where it is stored',
        // Answered from memory; the database is written behind.
        transaction: false,
        params: IdParams,
        body: Heartbeat,
        response: HeartbeatAck,
        errors: ['device_busy', 'unavailable'],
        handler: ({ ctx, body }) => hub.heartbeat(ctx.agent, body, ctx.client.ip),
      }),
      route({
        method: 'post',
        path: '/agents/:id/token/rotate',
        summary: 'Get a new token',
        description:
          'Both tokens are valid until the new one is used for the first time, here or on the socket, which revokes the old one. An agent that did not receive this response asks again with the old token, which replaces the lost one.',
        access: 'agent',
        params: IdParams,
        response: RotateTokenResponse,
        status: 201,
        handler: ({ ctx, bearer }) => stageAgentToken(ctx.tx, ctx.agent.deviceId, bearer),
        audit: {
          action: 'agent.token.rotate',
          resource: 'device',
          note: ({ hostname }, { params }) => ({ resourceId: params.id, resourceName: hostname }),
        },
      }),
    ],
  };
}
