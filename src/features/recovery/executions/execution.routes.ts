import type { z } from 'zod';
import { everyScope, peopleOfEveryScope } from '../../../platform/http/access.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { pageOf } from '../../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { abortExecution, executePlan, type ExecutionParts } from './execution.service.ts';
import {
  ExecutePlan,
  ExecutionQuery,
  RecoveryExecution,
  RecoveryExecutionDetail,
} from './execution.schema.ts';
import { listExecutions, readExecution } from './read-executions.ts';

const read = everyScope('recovery:read');
const execute = everyScope('recovery:execute');

/** It overwrites data on many devices at once, so a second factor is required and API keys are refused. */
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
