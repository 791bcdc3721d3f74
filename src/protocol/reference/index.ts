import { AGENT_REFERENCE } from './agents.ts';
import { DASHBOARD_REFERENCE } from './dashboards.ts';
import type { SocketNamespace } from './message.ts';

/** The reference of the socket messages: their schemas, and an example for each. */
export const SOCKET_REFERENCE: readonly SocketNamespace[] = [AGENT_REFERENCE, DASHBOARD_REFERENCE];
