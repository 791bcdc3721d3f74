export { createAgentAuthenticator } from './agent-authenticator.ts';
