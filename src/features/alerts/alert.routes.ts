import { z } from 'zod';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { changesOf } from '../../platform/http/changes.ts';
import { type AuditNote, route, type RouteGroup } from '../../platform/http/route.ts';
import {
  Alert,
  AlertBulk,
  AlertBulkAnswer,
  AlertCause,
  AlertNote,
  AlertQuery,
  AlertSummary,
  CauseQuery,
  SummaryQuery,
} from './alert.schema.ts';
import {
  changeAlert,
  changeAlerts,
  listAlerts,
  listCauses,
  readAlert,
  summarizeAlerts,
} from './alert.service.ts';
import type { Alert as StoredAlert } from './alert.model.ts';
import { shortened } from '../../protocol/index.ts';

type ChangedAlert = Pick<StoredAlert, 'id' | 'orgId' | 'status' | 'note'>;

const SCOPES = ['organization', 'partner', 'system'] as const;
const READ = { scopes: SCOPES, permission: 'alerts:read' };
const WRITE = { scopes: SCOPES, permission: 'alerts:write' };

const about = (alert: StoredAlert, { body }: { body: AlertNote }): AuditNote => ({
  orgId: alert.orgId,
  resourceId: alert.id,
  resourceName: shortened(alert.title, 255),
  details: {
    kind: alert.kind,
    deviceId: alert.deviceId,
    ...(body.note === undefined ? {} : { note: body.note }),
  },
});

export const alertRoutes: RouteGroup = {
  name: 'Alerts',
  description: 'Problems that the server detected, and their handling.',
  routes: [
    route({
      method: 'get',
      path: '/alerts',
      summary: 'List alerts, newest first',
      access: READ,
      cost: 'expensive',
      query: AlertQuery,
      response: pageOf(Alert),
      handler: ({ ctx, query }) => listAlerts(ctx, query),
    }),
    route({
      method: 'get',
      path: '/alerts/summary',
      summary: 'Count alerts by status and severity',
      access: READ,
      cost: 'expensive',
      query: SummaryQuery,
      response: AlertSummary,
      handler: ({ ctx, query }) => summarizeAlerts(ctx, query),
    }),
    route({
      method: 'get',
      path: '/alerts/causes',
      summary: 'List what needs attention now, by cause',
      description:
        'Active alerts, the worst first. Those of a kind that were raised within minutes of each other at one site are one entry, such as the devices of a site that went offline together. Of each organization, the others of a kind are one entry as well. The newest 20,000 active alerts are considered.',
      access: READ,
      cost: 'expensive',
      query: CauseQuery,
      response: z.object({ data: z.array(AlertCause) }),
      handler: async ({ ctx, query }) => ({ data: await listCauses(ctx, query) }),
    }),
    route({
      method: 'get',
      path: '/alerts/:id',
      summary: 'Read an alert',
      access: READ,
      params: IdParams,
      response: Alert,
      handler: ({ ctx, params }) => readAlert(ctx, params.id),
    }),
    route({
      method: 'post',
      path: '/alerts/bulk',
      summary: 'Acknowledge or resolve many alerts',
      description: 'Each alert has its own outcome. One that cannot be changed does not affect the others.',
      access: WRITE,
      body: AlertBulk,
      response: AlertBulkAnswer,
      handler: ({ ctx, body }) => changeAlerts(ctx, body),
      audit: {
        action: 'alert.resolve',
        resource: 'alert',
        // One entry per organization, so that each finds the changes of its alerts in its own trail.
        note: ({ alerts, before }, { body }) =>
          [...new Set(alerts.map(({ orgId }) => orgId))].map((orgId) => ({
            action: `alert.${body.action}`,
            orgId,
            details: {
              alertIds: alerts.filter((alert) => alert.orgId === orgId).map(({ id }) => id),
              ...bulkChange(orgId, { before, alerts }),
              ...(body.note === undefined ? {} : { note: body.note }),
            },
          })),
      },
    }),
    route({
      method: 'post',
      path: '/alerts/:id/acknowledge',
      summary: 'Acknowledge an alert',
      access: WRITE,
      params: IdParams,
      body: AlertNote,
      response: Alert,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => changeAlert(ctx, params.id, 'acknowledge', body),
      audit: { action: 'alert.acknowledge', resource: 'alert', note: about },
    }),
    route({
      method: 'post',
      path: '/alerts/:id/resolve',
      summary: 'Resolve an alert',
      description: 'While the cause persists, no new alert is raised for it.',
      access: WRITE,
      params: IdParams,
      body: AlertNote,
      response: Alert,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => changeAlert(ctx, params.id, 'resolve', body),
      audit: { action: 'alert.resolve', resource: 'alert', note: about },
    }),
  ],
};

/** The status of each alert of an organization that was changed, and its note if that was changed. */
function bulkChange(
  orgId: string,
  { before, alerts }: { before: readonly ChangedAlert[]; alerts: readonly ChangedAlert[] },
) {
  const byId = (some: readonly ChangedAlert[]) =>
    Object.fromEntries(some.map(({ id, status, note }) => [id, { status, note }]));
  const after = alerts.filter((alert) => alert.orgId === orgId);
  const ids = new Set(after.map(({ id }) => id));
  return changesOf({ alerts: byId(before.filter(({ id }) => ids.has(id))) }, { alerts: byId(after) });
}
