import { z } from 'zod';
import type { DeviceHub } from '../../hub/index.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  executeScript,
  createScript,
  deleteScript,
  listScripts,
  readScript,
  updateScript,
} from './script.service.ts';
import {
  ExecutionStarted,
  NewScript,
  Script,
  ScriptExecution,
  ScriptPatch,
  ScriptQuery,
} from './script.schema.ts';

const BODY_LIMIT = 500_000;

export function scriptRoutes(parts: { hub: DeviceHub; secrets: Encryptor }): RouteGroup {
  return {
    name: 'Scripts',
    description: 'Scripts and running them on devices.',
    routes: [
      route({
        method: 'get',
        path: '/scripts',
        summary: 'List scripts by name',
        access: everyScope('scripts:read'),
        query: ScriptQuery,
        response: pageOf(Script),
        handler: ({ ctx, query }) => listScripts(ctx, query),
      }),
      route({
        method: 'post',
        path: '/scripts',
        summary: 'Create a script',
        access: everyScope('scripts:write'),
        body: NewScript,
        bodyLimit: BODY_LIMIT,
        response: Script,
        status: 201,
        handler: ({ ctx, body }) => createScript(ctx, body),
        audit: { action: 'script.create', resource: 'script', note: auditSubject },
      }),
      route({
        method: 'get',
        path: '/scripts/:id',
        summary: 'Read a script',
        access: everyScope('scripts:read'),
        params: IdParams,
        response: Script,
        handler: ({ ctx, params }) => readScript(ctx, params.id),
      }),
      route({
        method: 'patch',
        path: '/scripts/:id',
        summary: 'Change a script',
        access: everyScope('scripts:write'),
        params: IdParams,
        body: ScriptPatch,
        bodyLimit: BODY_LIMIT,
        response: Script,
        handler: ({ ctx, params, body }) => updateScript(ctx, params.id, body),
        audit: {
          action: 'script.update',
          resource: 'script',
          note: (script) => ({ ...auditSubject(script), details: { changedFields: script.changedFields } }),
        },
      }),
      route({
        method: 'delete',
        path: '/scripts/:id',
        summary: 'Delete a script',
        description: 'Running executions continue.',
        access: everyScope('scripts:delete'),
        params: IdParams,
        response: z.object({ success: z.literal(true) }),
        handler: ({ ctx, params }) => deleteScript(ctx, params.id),
        audit: { action: 'script.delete', resource: 'script', note: ({ script }) => auditSubject(script) },
      }),
      route({
        method: 'post',
        path: '/scripts/:id/execute',
        summary: 'Run a script on devices',
        description:
          'Each device runs the script once. A device that is offline runs it when it returns within a day. The commands in the response show the results.',
        access: everyScope('scripts:execute'),
        cost: 'expensive',
        params: IdParams,
        body: ScriptExecution,
        response: ExecutionStarted,
        status: 202,
        idempotent: true,
        errors: ['conflict'],
        handler: ({ ctx, params, body }) => executeScript(ctx, params.id, body, parts),
        audit: {
          action: 'script.execute',
          resource: 'script',
          // Each organization finds in its trail what was run on its devices.
          note: ({ executionId, script, commands }) =>
            [...new Set(commands.map(({ orgId }) => orgId))].map((orgId) => ({
              ...auditSubject(script),
              orgId,
              details: {
                executionId,
                deviceIds: commands
                  .filter((command) => command.orgId === orgId)
                  .map(({ deviceId }) => deviceId),
              },
            })),
        },
      }),
    ],
  };
}
