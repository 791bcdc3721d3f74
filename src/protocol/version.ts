/** The version of the socket language. An agent that speaks another one is refused with `PROTOCOL_UNSUPPORTED`. */
export const PROTOCOL_VERSION = 1;

/** Where the hub's Socket.IO server listens, and its two namespaces. */
export const HUB_PATH = '/hub';
export const AGENT_NAMESPACE = '/agents';
export const DASHBOARD_NAMESPACE = '/dashboard';

/**
 * In the query of an agent's websocket, so that a hub that takes nobody now can say so before there is a connection: by
 * 503 with `Retry-After` in seconds, and the refusal as JSON in this header. Without it the namespace says the same.
 */
export const AGENT_QUERY = { client: 'agent' } as const;
export const REFUSAL_HEADER = 'muster-refusal';
