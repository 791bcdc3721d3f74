import type { DeviceHub } from '../../hub/index.ts';
import { everyScope } from '../../platform/http/authentication.ts';
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
      'Commands for devices. A command is stored until it has ended and takes effect once, whatever fails in between.',
    routes: [
      route({
        method: 'post',
        path: '/devices/bulk/commands',
        summary: 'Send a command to many devices',
        description:
          'A device that is offline receives the command when it returns, until `expiresAt`. `script.run` also requires `scripts:execute`.',
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
        summary: 'Send a command to a device',
        description:
          'A device that is offline receives the command when it returns, until `expiresAt`. `script.run` also requires `scripts:execute`.',
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
        summary: 'List the commands of a device, newest first',
        access: everyScope('devices:read'),
        params: IdParams,
        query: CommandQuery,
        response: pageOf(Command),
        handler: ({ ctx, params, query }) => listCommands(ctx, params.id, query, hub),
      }),
      route({
        method: 'get',
        path: '/commands/:id',
        summary: 'Read a command with its history',
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
          'A command that was not sent ends at once. Otherwise the device is asked to stop, and its result decides how the command ends.',
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
