import type { DeviceHub } from '../../hub/index.ts';
import { everyScope } from '../../platform/http/access.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  Command,
  CommandQuery,
  CommandsStarted,
  CommandWithHistory,
  NewCommand,
  NewCommands,
} from './command.schema.ts';
import {
  cancelCommand,
  createCommand,
  createCommands,
  listCommands,
  readCommandWithHistory,
} from './command.service.ts';

const about = ({ id, deviceId, orgId, type }: Command) => ({
  orgId,
  resourceId: deviceId,
  details: { commandId: id, type },
});

export function commandRoutes({ hub }: { hub: DeviceHub }): RouteGroup {
  return {
    name: 'Commands',
    description:
      'Work for devices, kept until it is done: each command takes effect once, whatever fails in between.',
    routes: [
      route({
        method: 'post',
        path: '/devices/bulk/commands',
        summary: 'Give many devices the same work',
        description:
          'A device that is not connected gets it when it comes back, until `expiresAt`. `script.run` needs `scripts:execute`.',
        access: everyScope('devices:execute'),
        cost: 'expensive',
        body: NewCommands,
        bodyLimit: 500_000,
        response: CommandsStarted,
        status: 202,
        idempotent: true,
        errors: ['conflict'],
        handler: ({ ctx, body }) => createCommands(ctx, body, hub),
        audit: {
          action: 'device.command',
          resource: 'device',
          note: ({ commands }) => commands.map(about),
        },
      }),
      route({
        method: 'post',
        path: '/devices/:id/commands',
        summary: 'Give a device work',
        description:
          'A device that is not connected gets it when it comes back, until `expiresAt`. `script.run` needs `scripts:execute`.',
        access: everyScope('devices:execute'),
        params: IdParams,
        body: NewCommand,
        bodyLimit: 500_000,
        response: Command,
        status: 202,
        idempotent: true,
        errors: ['capability_missing', 'tenant_inactive'],
        handler: ({ ctx, params, body }) => createCommand(ctx, params.id, body, hub),
        audit: { action: 'device.command', resource: 'device', note: about },
      }),
      route({
        method: 'get',
        path: '/devices/:id/commands',
        summary: 'List the work of a device, newest first',
        access: everyScope('devices:read'),
        params: IdParams,
        query: CommandQuery,
        response: pageOf(Command),
        handler: ({ ctx, params, query }) => listCommands(ctx, params.id, query, hub),
      }),
      route({
        method: 'get',
        path: '/commands/:id',
        summary: 'Read a command with every step it took',
        access: everyScope('devices:read'),
        params: IdParams,
        response: CommandWithHistory,
        handler: ({ ctx, params }) => readCommandWithHistory(ctx, params.id, hub),
      }),
      route({
        method: 'post',
        path: '/commands/:id/cancel',
        summary: 'Cancel a command',
        description:
          'What was not sent is over at once. What the device has, it is asked to stop: the command ends as the device says.',
        access: everyScope('devices:execute'),
        params: IdParams,
        response: Command,
        errors: ['conflict', 'tenant_inactive'],
        handler: ({ ctx, params }) => cancelCommand(ctx, params.id, hub),
        audit: { action: 'device.command.cancel', resource: 'device', note: about },
      }),
    ],
  };
}
