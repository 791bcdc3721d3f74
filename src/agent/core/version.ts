/** The release of the agent, which is not the server's. */
export const AGENT_VERSION = '0.1.0';
