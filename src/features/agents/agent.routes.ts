import { z } from 'zod';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { Heartbeat, HeartbeatAck, RotateTokenResponse } from '../../protocol/index.ts';
import { type DecommissionParts, stageAgentToken, unenrollDevice } from '../devices/index.ts';

export function agentRoutes({ hub, forgetTokens }: DecommissionParts): RouteGroup {
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
        errors: ['device_busy', 'identity_conflict', 'unavailable'],
        forPending: true,
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
        forPending: true,
        handler: ({ ctx, bearer }) => stageAgentToken(ctx.tx, ctx.agent.deviceId, bearer),
        audit: {
          action: 'agent.token.rotate',
          resource: 'device',
          note: ({ hostname }, { params }) => ({ resourceId: params.id, resourceName: hostname }),
        },
      }),
      route({
        method: 'post',
        path: '/agents/:id/unenroll',
        summary: 'Take the device out of service',
        description:
          'For a machine that leaves, such as one on which the agent is uninstalled. It is what `DELETE /devices/:id` does: the token is revoked, and the record stays and can be restored.',
        access: 'agent',
        params: IdParams,
        response: z.object({ success: z.literal(true) }),
        errors: ['not_found'],
        forPending: true,
        handler: ({ ctx }) => unenrollDevice(ctx, { hub, forgetTokens }),
        audit: {
          action: 'device.delete',
          resource: 'device',
          note: ({ device: { id, orgId, hostname } }) => auditSubject({ id, orgId, name: hostname }),
        },
      }),
    ],
  };
}
