import { z } from 'zod';
import { auditSubject } from '../../platform/http/audit.ts';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { SHORTEST_MINUTES } from './cron.ts';
import {
  NewScriptSchedule,
  SchedulePreview,
  SchedulePreviewRequest,
  ScriptSchedule,
  ScriptSchedulePatch,
  ScriptScheduleQuery,
} from './schedule.schema.ts';
import {
  createSchedule,
  deleteSchedule,
  listSchedules,
  previewSchedule,
  readSchedule,
  SCHEDULES_MAX,
  updateSchedule,
} from './schedule.service.ts';

const READ = everyScope('scripts:read');
/** A schedule outlives the key by which it would be made. */
const WRITE = peopleOfEveryScope('scripts:execute');

/** @param parts  what seals the secrets that schedules are given */
export const scriptScheduleRoutes = ({ secrets: encryptor }: { secrets: Encryptor }): RouteGroup => ({
  name: 'Script schedules',
  description: `Scripts that run by themselves, at most every ${SHORTEST_MINUTES} minutes. A schedule runs by the rights of the person who changed it last; when these do not suffice any more, it is paused with a reason. An addition to the specification.`,
  routes: [
    route({
      method: 'get',
      path: '/script-schedules',
      summary: 'List script schedules by name',
      description:
        'Those of partners are shown to users with access to all of the organizations of the partner. `GET /script-runs?scheduleId=` lists what they have run.',
      access: READ,
      query: ScriptScheduleQuery,
      response: pageOf(ScriptSchedule),
      handler: ({ ctx, query }) => listSchedules(ctx, query),
    }),
    route({
      method: 'post',
      path: '/script-schedules',
      summary: 'Create a script schedule',
      description: `An organization can have ${SCHEDULES_MAX} schedules, and a partner ${SCHEDULES_MAX} of its own.`,
      access: WRITE,
      body: NewScriptSchedule,
      response: ScriptSchedule,
      status: 201,
      errors: ['conflict', 'limit_reached', 'tenant_inactive'],
      handler: ({ ctx, body }) => createSchedule(ctx, body, encryptor),
      audit: {
        action: 'script.schedule.create',
        resource: 'script_schedule',
        note: ({ scriptId, cron, timezone, target, ...schedule }) => ({
          ...auditSubject(schedule),
          details: { scriptId, cron, timezone, target },
        }),
      },
    }),
    route({
      method: 'post',
      path: '/script-schedules/preview',
      summary: 'Show when a script schedule would be due',
      access: READ,
      body: SchedulePreviewRequest,
      response: SchedulePreview,
      handler: ({ body }) => previewSchedule(body),
      unaudited: 'it only computes times',
    }),
    route({
      method: 'get',
      path: '/script-schedules/:id',
      summary: 'Read a script schedule',
      access: READ,
      params: IdParams,
      response: ScriptSchedule,
      handler: ({ ctx, params }) => readSchedule(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/script-schedules/:id',
      summary: 'Change, enable or disable a script schedule',
      description:
        'From then on it runs by your rights. A pause ends, unless the script was changed since it was given the secrets: then give them again, or send `scriptFingerprint` if you have set all of them. Secrets that you do not name stay as they are.',
      access: WRITE,
      params: IdParams,
      body: ScriptSchedulePatch,
      response: ScriptSchedule,
      errors: ['conflict', 'tenant_inactive'],
      handler: ({ ctx, params, body }) => updateSchedule(ctx, params.id, body, encryptor),
      audit: { action: 'script.schedule.update', resource: 'script_schedule', note: auditSubject },
    }),
    route({
      method: 'delete',
      path: '/script-schedules/:id',
      summary: 'Delete a script schedule',
      description: 'Runs that it has begun continue.',
      access: WRITE,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['tenant_inactive'],
      handler: ({ ctx, params }) => deleteSchedule(ctx, params.id),
      audit: {
        action: 'script.schedule.delete',
        resource: 'script_schedule',
        note: ({ schedule }) => auditSubject(schedule),
      },
    }),
  ],
});
