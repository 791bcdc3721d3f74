export { agentPages } from './agents.pages.ts';
