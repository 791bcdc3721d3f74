import type { Server as HttpServer } from 'node:http';
import { DASHBOARD_NAMESPACE } from '../protocol/index.ts';
import { type AgentParts, serveAgents } from './agents/agent-transport.ts';
import { type DashboardParts, serveDashboards } from './dashboard/dashboard-transport.ts';
import { type AdmissionRules, UpgradeGate } from './wire/admission.ts';
import { createSocketServer } from './wire/socket-server.ts';

/** What the hub gives to its sockets, on which agents and dashboards reach it. */
export interface SocketParts {
  agents: Omit<AgentParts, 'gate'>;
  admission: AdmissionRules;
  dashboards: DashboardParts;
}

export interface HubSockets {
  /** The number of open connections. */
  readonly clients: number;
  close(): Promise<void>;
}

export type ServeSockets = (httpServer: HttpServer, parts: SocketParts) => HubSockets;

/** Serves agents and dashboards over Socket.IO. */
export const serveSockets: ServeSockets = (httpServer, { agents, admission, dashboards }) => {
  const io = createSocketServer(httpServer);
  const gate = new UpgradeGate(httpServer, admission);
  io.of(DASHBOARD_NAMESPACE).on('connection', ({ request }) => gate.refundAttempt(request));
  serveAgents(io, { ...agents, gate });
  serveDashboards(io, dashboards);
  return {
    get clients() {
      return io.engine.clientsCount;
    },
    close: () => io.close(),
  };
};
