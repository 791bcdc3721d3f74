export { createAgentAuthenticator } from './agent-authenticator.ts';
export { agentRoutes } from './agent.routes.ts';
