import { AGENT_REFERENCE, DASHBOARD_REFERENCE } from './messages.ts';
import type { SocketNamespace } from './message.ts';

/** The reference of the socket messages: their schemas, and an example for each. */
export const SOCKET_REFERENCE: readonly SocketNamespace[] = [AGENT_REFERENCE, DASHBOARD_REFERENCE];
