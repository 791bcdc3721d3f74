import { z } from 'zod';
import type { DeviceHub } from '../../hub/index.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { PageQuery, pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import {
  ExecutionStarted,
  NewScriptRun,
  OutputGroup,
  OutputParams,
  RunAgain,
  RunDevice,
  RunDeviceQuery,
  RunOutput,
  ScriptExecution,
  ScriptRun,
  ScriptRunDetails,
  ScriptRunQuery,
} from './script-run.schema.ts';
import {
  cancelRun,
  executeScript,
  listRunDevices,
  listRunOutputs,
  listRuns,
  readRun,
  readRunOutput,
  runAgain,
  startRun,
} from './script-run.service.ts';
import { notesOfRun } from './start-run.ts';

const READ = everyScope('scripts:read');
const EXECUTE = everyScope('scripts:execute');

export function scriptRunRoutes(parts: { hub: DeviceHub; secrets: Encryptor; jobs: Jobs }): RouteGroup {
  const { jobs } = parts;
  return {
    name: 'Script runs',
    description:
      'Running scripts on devices. A run is one request to run one version of a script: the script may be changed or deleted while devices run it. Each person sees the devices of a run that they can access, and counts of these. An addition to the specification.',
    routes: [
      route({
        method: 'post',
        path: '/scripts/:id/execute',
        summary: 'Run a script on devices',
        description:
          'Each device runs the script once. A device that is offline runs it when it returns within a day. The commands in the response show the results, and so does the script run whose id is `executionId`. `POST /scripts/{id}/runs` takes more devices.',
        access: EXECUTE,
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
      route({
        method: 'post',
        path: '/scripts/:id/runs',
        summary: 'Start a script run',
        description:
          'Each device runs the script once. The devices are looked up at once; their commands are added in the background, so the run may still be `starting` in the response.',
        access: EXECUTE,
        cost: 'expensive',
        params: IdParams,
        body: NewScriptRun,
        response: ScriptRunDetails.extend({
          unknownDeviceIds: z
            .array(z.uuid())
            .describe('Those of `target.deviceIds` that do not exist, or that you cannot access.'),
        }),
        status: 202,
        idempotent: true,
        errors: ['conflict'],
        handler: ({ ctx, params, body }) => startRun(ctx, params.id, body, jobs),
        audit: {
          action: 'script.execute',
          resource: 'script',
          note: ({ devices, ...run }) => notesOfRun(run, devices),
        },
      }),
      route({
        method: 'get',
        path: '/script-runs',
        summary: 'List script runs, newest first',
        access: READ,
        query: ScriptRunQuery,
        response: pageOf(ScriptRun),
        handler: ({ ctx, query }) => listRuns(ctx, query),
      }),
      route({
        method: 'get',
        path: '/script-runs/:id',
        summary: 'Read a script run',
        access: READ,
        params: IdParams,
        response: ScriptRunDetails,
        handler: ({ ctx, params }) => readRun(ctx, params.id),
      }),
      route({
        method: 'get',
        path: '/script-runs/:id/devices',
        summary: 'List what became of a script run on each device, by name',
        description: 'Also requires `devices:read`. The output is in the command.',
        access: READ,
        params: IdParams,
        query: RunDeviceQuery,
        response: pageOf(RunDevice),
        handler: ({ ctx, params, query }) => listRunDevices(ctx, params.id, query),
      }),
      route({
        method: 'get',
        path: '/script-runs/:id/outputs',
        summary: 'List the outputs of a script run, the most frequent first',
        description:
          'Devices whose exit code, output and errors are equal are one group. Also requires `devices:read`.',
        access: READ,
        params: IdParams,
        query: PageQuery,
        response: pageOf(OutputGroup),
        handler: ({ ctx, params, query }) => listRunOutputs(ctx, params.id, query),
      }),
      route({
        method: 'get',
        path: '/script-runs/:id/outputs/:outputHash',
        summary: 'Read an output of a script run',
        description: 'Also requires `devices:read`.',
        access: READ,
        params: OutputParams,
        response: RunOutput,
        handler: ({ ctx, params }) => readRunOutput(ctx, params.id, params.outputHash),
      }),
      route({
        method: 'post',
        path: '/script-runs/:id/cancel',
        summary: 'Cancel a script run',
        description:
          'Commands that were not sent end. Devices that run the script are asked to stop, and their results decide how they end. This needs access to all organizations of the run.',
        access: EXECUTE,
        params: IdParams,
        response: ScriptRunDetails,
        status: 202,
        errors: ['conflict'],
        handler: ({ ctx, params }) => cancelRun(ctx, params.id, jobs),
        audit: {
          action: 'script.execute.cancel',
          resource: 'script',
          note: (run) => run.orgIds.map((orgId) => ({ ...notesOfCancel(run), orgId })),
        },
      }),
      route({
        method: 'post',
        path: '/script-runs/:id/run-again',
        summary: 'Run the same version of a script again',
        description:
          'With the same parameters, on all devices of the run or on those on which it failed. The version is that of the run, also if the script was changed or deleted since.',
        access: EXECUTE,
        cost: 'expensive',
        params: IdParams,
        body: RunAgain,
        response: ScriptRunDetails,
        status: 202,
        idempotent: true,
        errors: ['conflict'],
        handler: ({ ctx, params, body }) => runAgain(ctx, params.id, body, jobs),
        audit: {
          action: 'script.execute',
          resource: 'script',
          note: ({ devices, ...run }) => notesOfRun(run, devices, { againOf: run.againOf }),
        },
      }),
    ],
  };
}

const notesOfCancel = ({ id, scriptId, scriptName }: z.input<typeof ScriptRun>) => ({
  ...(scriptId === null ? {} : { resourceId: scriptId }),
  resourceName: scriptName,
  details: { executionId: id },
});
