import { z } from 'zod';
import { everyScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  NewReportSchedule,
  ReportSchedule,
  ReportSchedulePatch,
  ReportScheduleQuery,
} from './report-schedule.schema.ts';
import {
  createSchedule,
  deleteSchedule,
  listSchedules,
  SCHEDULES_MAX,
  updateSchedule,
} from './report-schedule.service.ts';

/** Who mails figures to addresses outside must be able to change the organization. */
const WRITE = everyScope('organizations:write');

export const reportScheduleRoutes: RouteGroup = {
  name: 'Schedules of reports',
  description: 'Reports that are mailed once a month, each about the month before.',
  routes: [
    route({
      method: 'get',
      path: '/reports/schedules',
      summary: 'List schedules of reports by name',
      description:
        'Those of partners are shown to users with access to all of the organizations of the partner.',
      access: everyScope('organizations:read'),
      query: ReportScheduleQuery,
      response: pageOf(ReportSchedule),
      handler: ({ ctx, query }) => listSchedules(ctx, query),
    }),
    route({
      method: 'post',
      path: '/reports/schedules',
      summary: 'Mail reports once a month',
      description: `Each mail has the main figures of one organization and a link to its report, for which the reader has to sign in. A server that was away makes up for the last one that was missed. The schedule pauses, and says why, when the person who saved it last has left or may not do so any more. An organization can have ${SCHEDULES_MAX} schedules, and a partner ${SCHEDULES_MAX} of its own.`,
      access: WRITE,
      body: NewReportSchedule,
      response: ReportSchedule,
      status: 201,
      errors: ['conflict', 'limit_reached', 'tenant_inactive'],
      handler: ({ ctx, body }) => createSchedule(ctx, body),
      audit: {
        action: 'report_schedule.create',
        resource: 'report_schedule',
        note: ({ dayOfMonth, time, timezone, userIds, addresses, ...schedule }) => ({
          ...auditSubject(schedule),
          details: { dayOfMonth, time, timezone, userIds, addresses },
        }),
      },
    }),
    route({
      method: 'patch',
      path: '/reports/schedules/:id',
      summary: 'Change, pause or resume a schedule of reports',
      description: 'From then on its reports are made by the rights of the caller.',
      access: WRITE,
      params: IdParams,
      body: ReportSchedulePatch,
      response: ReportSchedule,
      errors: ['conflict', 'tenant_inactive'],
      handler: ({ ctx, params, body }) => updateSchedule(ctx, params.id, body),
      audit: {
        action: 'report_schedule.update',
        resource: 'report_schedule',
        note: ({ changedFields, ...schedule }) => ({ ...auditSubject(schedule), details: { changedFields } }),
      },
    }),
    route({
      method: 'delete',
      path: '/reports/schedules/:id',
      summary: 'Delete a schedule of reports',
      access: WRITE,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['tenant_inactive'],
      handler: ({ ctx, params }) => deleteSchedule(ctx, params.id),
      audit: {
        action: 'report_schedule.delete',
        resource: 'report_schedule',
        note: ({ schedule }) => auditSubject(schedule),
      },
    }),
  ],
};
