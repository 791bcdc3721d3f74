import { z } from 'zod';
import { everyScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { createScript, deleteScript, listScripts, readScript, updateScript } from './script.service.ts';
import { NewScript, Script, ScriptPatch, ScriptQuery } from './script.schema.ts';

const BODY_LIMIT = 500_000;

export const scriptRoutes: RouteGroup = {
  name: 'Scripts',
  description: 'Scripts that are kept to be run on devices.',
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
      description: 'Runs that have begun continue. Schedules of the script are paused.',
      access: everyScope('scripts:delete'),
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      handler: ({ ctx, params }) => deleteScript(ctx, params.id),
      audit: { action: 'script.delete', resource: 'script', note: ({ script }) => auditSubject(script) },
    }),
  ],
};
