import { z } from 'zod';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
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
import {
  abortExecution,
  executePlan,
  type ExecutionParts,
  listExecutions,
  readExecution,
} from './execution.service.ts';
import {
  ExecutePlan,
  ExecutionQuery,
  RecoveryExecution,
  RecoveryExecutionDetail,
} from './execution.schema.ts';

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

const execute = everyScope('recovery:execute');

/**
 * Executing a plan overwrites data on many devices at once, so a second factor is required and API keys are refused.
 */
const EXECUTE_PLAN = { ...peopleOfEveryScope('recovery:execute'), mfa: true } as const;

type Shown = z.input<typeof RecoveryExecutionDetail>;
const about = ({ id, orgId, planId, planName, executionType }: Shown) => ({
  orgId,
  resourceId: id,
  resourceName: planName,
  details: { planId, executionType },
});

export const executionRoutes = (parts: ExecutionParts): RouteGroup => ({
  name: 'Recovery executions',
  description: 'Rehearsals, failovers and failbacks of recovery plans.',
  routes: [
    route({
      method: 'post',
      path: '/dr/plans/:id/execute',
      summary: 'Execute a recovery plan',
      description:
        '`rehearsal` restores everything to isolated places, runs the checks, takes everything down again and reports. `failover` restores to the targets and marks the sources as failed over. `failback` brings the changed data back from the targets and clears the marks.',
      access: EXECUTE_PLAN,
      params: IdParams,
      body: ExecutePlan,
      response: RecoveryExecutionDetail,
      status: 201,
      idempotent: true,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => executePlan(ctx, params.id, body, parts),
      audit: {
        action: 'recovery.execute',
        resource: 'recovery_execution',
        note: (execution, { body }) => {
          const { details, ...subject } = about(execution);
          return { ...subject, details: { ...details, note: body.note ?? null } };
        },
      },
    }),
    route({
      method: 'get',
      path: '/dr/executions',
      summary: 'List executions of recovery plans, the newest first',
      access: read,
      query: ExecutionQuery,
      response: pageOf(RecoveryExecution),
      handler: ({ ctx, query }) => listExecutions(ctx, query),
    }),
    route({
      method: 'get',
      path: '/dr/executions/:id',
      summary: 'Read an execution of a recovery plan, step by step',
      access: read,
      params: IdParams,
      response: RecoveryExecutionDetail,
      handler: ({ ctx, params }) => readExecution(ctx, params.id),
    }),
    route({
      method: 'post',
      path: '/dr/executions/:id/abort',
      summary: 'Abort an execution of a recovery plan',
      description:
        'Cancels what runs on the devices, and takes down what a rehearsal has started. What has failed over by then stays so.',
      access: execute,
      params: IdParams,
      response: RecoveryExecutionDetail,
      handler: ({ ctx, params }) => abortExecution(ctx, params.id, parts),
      audit: { action: 'recovery.abort', resource: 'recovery_execution', note: about },
    }),
  ],
});
