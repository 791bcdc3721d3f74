import { everyScope } from '../../../platform/http/access.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { readAgentUpdates } from './agent-updates.service.ts';
import { EffectiveSettings } from './target.schema.ts';

export const targetRoutes: RouteGroup = {
  name: 'Agent updates',
  description: 'Which releases devices are upgraded to, when, and why not.',
  routes: [
    route({
      method: 'get',
      path: '/orgs/organizations/:id/agent-updates',
      summary: 'Read how the agents of an organization are upgraded',
      description:
        'Pins, policy and maintenance window with the level at which each was set. A pin of the organization overrides its partner’s; a policy or a window of the partner overrides the organization’s. They are set as `settings.agentUpdates` of the organization and of the partner.',
      access: everyScope('organizations:read'),
      params: IdParams,
      response: EffectiveSettings,
      handler: ({ ctx, params }) => readAgentUpdates(ctx, params.id),
    }),
  ],
};
