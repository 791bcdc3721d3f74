import { defineFeature } from '../feature.ts';
import { agentRoutes } from './agent.routes.ts';

export { createAgentAuthenticator } from './agent-authenticator.ts';

export const feature = defineFeature({
  name: 'agents',
  routes: (parts: Parameters<typeof agentRoutes>[0]) => [agentRoutes(parts)],
});
