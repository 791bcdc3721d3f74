/** The version of the socket language. An agent that speaks another one is refused with `PROTOCOL_UNSUPPORTED`. */
export const PROTOCOL_VERSION = 1;

/** Where the hub's Socket.IO server listens, and its two namespaces. */
export const HUB_PATH = '/hub';
export const AGENT_NAMESPACE = '/agents';
export const DASHBOARD_NAMESPACE = '/dashboard';
