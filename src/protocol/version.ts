/** The version of the socket protocol. An agent with another one is refused with `PROTOCOL_UNSUPPORTED`. */
export const PROTOCOL_VERSION = 1;

/** The path of the hub's Socket.IO server, and its two namespaces. */
export const HUB_PATH = '/hub';
export const AGENT_NAMESPACE = '/agents';
export const DASHBOARD_NAMESPACE = '/dashboard';

/**
 * The query of an agent's websocket. With it, a busy hub can refuse the agent before a connection exists: with 503,
 * `Retry-After` in seconds, and the refusal as JSON in the header below. Without it, the namespace refuses the agent.
 */
export const AGENT_QUERY = { client: 'agent' } as const;
export const REFUSAL_HEADER = 'muster-refusal';
