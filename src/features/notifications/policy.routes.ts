import { z } from 'zod';
import { everyScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  NewPolicy,
  NotificationPolicy,
  PolicyOrder,
  PolicyOrderAnswer,
  PolicyPatch,
  PolicyQuery,
  Simulation,
  SimulationAnswer,
} from './policy.schema.ts';
import {
  createPolicy,
  deletePolicy,
  listPolicies,
  orderPolicies,
  readPolicy,
  simulate,
  updatePolicy,
} from './policy.service.ts';

const READ = everyScope('alerts:read');
const WRITE = everyScope('organizations:write');

export const policyRoutes: RouteGroup = {
  name: 'Notification policies',
  description:
    'Who is told about which alerts, and who next if nobody acknowledges them. The first enabled policy that fits takes an alert: those of its organization in order, then those of the partner. An addition to the specification.',
  routes: [
    route({
      method: 'get',
      path: '/notification-policies',
      summary: 'List notification policies in their order',
      description:
        'Those of partners are shown to users with access to all of the organizations of the partner.',
      access: READ,
      query: PolicyQuery,
      response: pageOf(NotificationPolicy),
      handler: ({ ctx, query }) => listPolicies(ctx, query),
    }),
    route({
      method: 'post',
      path: '/notification-policies',
      summary: 'Create a notification policy',
      description:
        'It comes behind the others of its owner. An organization can have 50 policies, and a partner 50 of its own.',
      access: WRITE,
      body: NewPolicy,
      response: NotificationPolicy,
      status: 201,
      errors: ['conflict', 'limit_reached', 'tenant_inactive'],
      handler: ({ ctx, body }) => createPolicy(ctx, body),
      audit: {
        action: 'notification_policy.create',
        resource: 'notification_policy',
        note: (policy, { body }) => ({ ...auditSubject(policy), details: { steps: body.steps } }),
      },
    }),
    route({
      method: 'put',
      path: '/notification-policies/order',
      summary: 'Set the order of the notification policies of an owner',
      access: WRITE,
      body: PolicyOrder,
      response: PolicyOrderAnswer,
      errors: ['tenant_inactive'],
      handler: ({ ctx, body }) => orderPolicies(ctx, body),
      audit: {
        action: 'notification_policy.order',
        resource: 'notification_policy',
        note: ({ owner }) => owner,
      },
    }),
    route({
      method: 'post',
      path: '/notification-policies/simulate',
      summary: 'Show who would be told about an alert, and when',
      access: READ,
      body: Simulation,
      response: SimulationAnswer,
      unaudited: 'it changes nothing, and only says who would be told',
      handler: ({ ctx, body }) => simulate(ctx, body),
    }),
    route({
      method: 'get',
      path: '/notification-policies/:id',
      summary: 'Read a notification policy',
      access: READ,
      params: IdParams,
      response: NotificationPolicy,
      handler: ({ ctx, params }) => readPolicy(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/notification-policies/:id',
      summary: 'Change, enable or disable a notification policy',
      description:
        'Open conversations go on by the new rules. While it is disabled, nobody is told anything but that alerts were resolved.',
      access: WRITE,
      params: IdParams,
      body: PolicyPatch,
      response: NotificationPolicy,
      errors: ['conflict', 'tenant_inactive'],
      handler: ({ ctx, params, body }) => updatePolicy(ctx, params.id, body),
      audit: { action: 'notification_policy.update', resource: 'notification_policy', note: auditSubject },
    }),
    route({
      method: 'delete',
      path: '/notification-policies/:id',
      summary: 'Delete a notification policy',
      description: 'Those who were told of alerts are still told when these are resolved.',
      access: WRITE,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['tenant_inactive'],
      handler: ({ ctx, params }) => deletePolicy(ctx, params.id),
      audit: {
        action: 'notification_policy.delete',
        resource: 'notification_policy',
        note: ({ policy }) => auditSubject(policy),
      },
    }),
  ],
};
