/** The release of the agent, which differs from the server's. */
export const AGENT_VERSION = '0.1.0';
