import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { type AuditNote, route, type RouteGroup } from '../../platform/http/route.ts';
import type { ReleaseKeys } from '../releases/index.ts';
import { NewRollout, Rollout, RolloutDetails, RolloutQuery } from './rollout.schema.ts';
import {
  abortRollout,
  listRollouts,
  pauseRollout,
  readRollout,
  resumeRollout,
  startRollout,
} from './rollout.service.ts';

/** A rollout runs a release with all rights on every device that it reaches, and names devices of all tenants. */
const CONTROL = { scopes: ['system'], person: true, mfa: true } as const;

export interface RolloutRouteParts {
  releases: { keys: ReleaseKeys };
}

export const rolloutRoutes = ({ releases }: RolloutRouteParts): RouteGroup => ({
  name: 'Agent rollouts',
  description:
    'A release reaches the devices with the update policy `staged` in waves. A rollout stops by itself when devices fail or fall silent.',
  routes: [
    route({
      method: 'get',
      path: '/agent-rollouts',
      summary: 'List rollouts',
      description: 'Newest first.',
      access: CONTROL,
      query: RolloutQuery,
      response: pageOf(Rollout),
      handler: ({ ctx, query }) => listRollouts(ctx, query),
    }),
    route({
      method: 'post',
      path: '/agent-rollouts',
      summary: 'Start a rollout',
      description:
        'The first wave opens at once. It also has three devices of each platform. There is at most one unfinished rollout of a component.',
      access: CONTROL,
      body: NewRollout,
      response: RolloutDetails,
      status: 201,
      errors: ['conflict', 'not_found', 'release_untrusted'],
      handler: ({ ctx, body }) => startRollout(ctx, releases.keys, body),
      audit: { action: 'agent_rollout.start', resource: 'agent_rollout', note: rolloutNote },
    }),
    route({
      method: 'get',
      path: '/agent-rollouts/:id',
      summary: 'Read a rollout',
      description: 'With the devices of each wave, counted by what became of them.',
      access: CONTROL,
      params: IdParams,
      response: RolloutDetails,
      handler: ({ ctx, params }) => readRollout(ctx, params.id),
    }),
    route({
      method: 'post',
      path: '/agent-rollouts/:id/pause',
      summary: 'Pause a rollout',
      description: 'No device is offered the release until it is resumed. What has begun goes on.',
      access: CONTROL,
      params: IdParams,
      response: RolloutDetails,
      errors: ['conflict'],
      handler: ({ ctx, params }) => pauseRollout(ctx, params.id),
      audit: { action: 'agent_rollout.pause', resource: 'agent_rollout', note: rolloutNote },
    }),
    route({
      method: 'post',
      path: '/agent-rollouts/:id/resume',
      summary: 'Resume a rollout that is paused or halted',
      description:
        'The open wave is observed anew. Failures that halted the rollout do not count any more, and its alerts are resolved.',
      access: CONTROL,
      params: IdParams,
      response: RolloutDetails,
      errors: ['conflict'],
      handler: ({ ctx, params }) => resumeRollout(ctx, params.id),
      audit: { action: 'agent_rollout.resume', resource: 'agent_rollout', note: rolloutNote },
    }),
    route({
      method: 'post',
      path: '/agent-rollouts/:id/abort',
      summary: 'Abort a rollout',
      description:
        'It ends. Devices keep what they have; the others follow the rollout before it, or what is promoted.',
      access: CONTROL,
      params: IdParams,
      response: RolloutDetails,
      errors: ['conflict'],
      handler: ({ ctx, params }) => abortRollout(ctx, params.id),
      audit: { action: 'agent_rollout.abort', resource: 'agent_rollout', note: rolloutNote },
    }),
  ],
});

function rolloutNote({
  id,
  component,
  version,
  wave,
  waves,
}: {
  id: string;
  component: string;
  version: string;
  wave: number;
  waves: readonly { percent: number; soakMinutes: number }[];
}): AuditNote {
  return {
    resourceId: id,
    resourceName: `${component} ${version}`,
    details: { wave, waves: waves.map(({ percent, soakMinutes }) => ({ percent, soakMinutes })) },
  };
}
