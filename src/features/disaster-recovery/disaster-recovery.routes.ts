import { z } from 'zod';
import { everyScope } from '../../../platform/http/access.ts';
import { auditSubject } from '../../../platform/http/audit.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { pageOf } from '../../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { addGroup, removeGroup, updateGroup } from './group.service.ts';
import {
  GroupParams,
  NewRecoveryGroup,
  NewRecoveryPlan,
  RecoveryGroup,
  RecoveryGroupPatch,
  RecoveryPlan,
  RecoveryPlanDetail,
  RecoveryPlanPatch,
  RecoveryPlanQuery,
} from './plan.schema.ts';
import { createPlan, deletePlan, listPlans, readPlan, updatePlan } from './plan.service.ts';

const read = everyScope('recovery:read');
const write = everyScope('recovery:write');

/** A group of many devices, each with checks of its own. */
const BODY_LIMIT = 1_000_000;

export const planRoutes: RouteGroup = {
  name: 'Recovery plans',
  description: 'In which order the devices of an organization are restored when a disaster has struck.',
  routes: [
    route({
      method: 'get',
      path: '/dr/plans',
      summary: 'List recovery plans by name',
      access: read,
      query: RecoveryPlanQuery,
      response: pageOf(RecoveryPlan),
      handler: ({ ctx, query }) => listPlans(ctx, query),
    }),
    route({
      method: 'post',
      path: '/dr/plans',
      summary: 'Create a recovery plan',
      access: write,
      body: NewRecoveryPlan,
      response: RecoveryPlanDetail,
      status: 201,
      errors: ['conflict', 'limit_reached'],
      handler: ({ ctx, body }) => createPlan(ctx, body),
      audit: { action: 'recovery.plan.create', resource: 'recovery_plan', note: auditSubject },
    }),
    route({
      method: 'get',
      path: '/dr/plans/:id',
      summary: 'Read a recovery plan with its groups',
      access: read,
      params: IdParams,
      response: RecoveryPlanDetail,
      handler: ({ ctx, params }) => readPlan(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/dr/plans/:id',
      summary: 'Change a recovery plan',
      description: 'An execution that has begun goes on with the plan as it was.',
      access: write,
      params: IdParams,
      body: RecoveryPlanPatch,
      response: RecoveryPlanDetail,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => updatePlan(ctx, params.id, body),
      audit: {
        action: 'recovery.plan.update',
        resource: 'recovery_plan',
        note: (plan, { body }) => ({ ...auditSubject(plan), details: { changedFields: Object.keys(body) } }),
      },
    }),
    route({
      method: 'delete',
      path: '/dr/plans/:id',
      summary: 'Delete a recovery plan',
      description: 'Its executions stay. Refused while one is running, or while a device has failed over.',
      access: write,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['conflict'],
      handler: ({ ctx, params }) => deletePlan(ctx, params.id),
      audit: {
        action: 'recovery.plan.delete',
        resource: 'recovery_plan',
        note: ({ plan }) => auditSubject(plan),
      },
    }),
    route({
      method: 'post',
      path: '/dr/plans/:id/groups',
      summary: 'Add a group to a recovery plan',
      access: write,
      params: IdParams,
      body: NewRecoveryGroup,
      bodyLimit: BODY_LIMIT,
      response: RecoveryGroup,
      status: 201,
      errors: ['limit_reached'],
      handler: ({ ctx, params, body }) => addGroup(ctx, params.id, body),
      audit: {
        action: 'recovery.group.create',
        resource: 'recovery_group',
        note: (group) => ({ ...auditSubject(group), details: { planId: group.planId } }),
      },
    }),
    route({
      method: 'patch',
      path: '/dr/plans/:id/groups/:groupId',
      summary: 'Change a group of a recovery plan',
      access: write,
      params: GroupParams,
      body: RecoveryGroupPatch,
      bodyLimit: BODY_LIMIT,
      response: RecoveryGroup,
      handler: ({ ctx, params, body }) => updateGroup(ctx, params, body),
      audit: {
        action: 'recovery.group.update',
        resource: 'recovery_group',
        note: (group, { body }) => ({
          ...auditSubject(group),
          details: { planId: group.planId, changedFields: Object.keys(body) },
        }),
      },
    }),
    route({
      method: 'delete',
      path: '/dr/plans/:id/groups/:groupId',
      summary: 'Remove a group from a recovery plan',
      description: 'Refused while another group depends on it.',
      access: write,
      params: GroupParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['conflict'],
      handler: ({ ctx, params }) => removeGroup(ctx, params),
      audit: {
        action: 'recovery.group.delete',
        resource: 'recovery_group',
        note: ({ group }) => ({ ...auditSubject(group), details: { planId: group.planId } }),
      },
    }),
  ],
};
