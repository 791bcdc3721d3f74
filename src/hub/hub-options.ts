import type { Server as HttpServer } from 'node:http';
import type { NodeBus } from '../platform/cluster/node-bus.ts';
import type { ProxyTrust } from '../platform/http/client-address.ts';
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { Directory } from './cluster/directory.ts';
import type { Reach } from './cluster/reach.ts';
import type { HubMessage } from './cluster/messages.ts';
import type { DashboardLimits } from './dashboard/dashboard-limits.ts';
import type { AgentCredentials } from './ports/agent-credentials.ts';
import type { CommandLedger } from './ports/command-ledger.ts';
import type { DeviceStore } from './ports/device-store.ts';
import type { FleetStore } from './ports/fleet-store.ts';
import type { LongWork } from './ports/long-work.ts';
import type { LogReads, People } from './ports/people.ts';
import type { UpgradeHistory, UpgradeOffers } from './ports/upgrades.ts';
import type { AdmissionLimits } from './sockets/admission.ts';

export interface HubOptions {
  httpServer: HttpServer;
  store: DeviceStore;
  /** Called with the devices of every change that this node announces. */
  onDevicesChanged?: (deviceIds: readonly string[]) => void;
  /** Needed for live filters. Without it, subscriptions with conditions are refused. */
  fleet?: FleetStore;
  /** The most devices that live filters may hold (default 300,000), and the interval for conditions about time (15 s). */
  liveFilters?: { devicesMax?: number; sweepMs?: number };
  credentials: AgentCredentials;
  ledger: CommandLedger;
  /** Long work that is shown beside the commands. Without it, only commands are. */
  longWork?: LongWork;
  /** What devices should install, and what becomes of it. Without it nothing is offered, and reports are dropped. */
  upgrades?: { offers: UpgradeOffers; history: UpgradeHistory };
  /** The audit trail of live log reads. Without it they are not recorded. */
  logReads?: LogReads;
  people: People;
  heartbeatSeconds: number;
  /** The proxies whose statement about a client's address is trusted. */
  proxyTrust: ProxyTrust;
  log: Logger;
  metrics: Metrics;
  /** The connections to other nodes. Without `bus` and `directory` the hub runs in one process. */
  bus?: NodeBus<HubMessage>;
  directory?: Directory;
  /** The nodes that are alive, or `undefined` while that is not certain. */
  nodes?: () => ReadonlySet<string> | undefined;
  reach?: Reach;
  nodeId: string;
  /** How long a device stays online after its connection closed (default 5 s). */
  graceMs?: number;
  dashboardRecheckMs?: number;
  dashboardLimits?: Partial<DashboardLimits>;
  /** Whether announcements of changed rights reach this node now. By default they always do. */
  isInTouch?: () => boolean;
  /** How long a dashboard may leave unread what it is sent (default 20 s). */
  dashboardPatienceMs?: number;
  admission?: AdmissionLimits;
  /** How often this node looks for undelivered commands of its devices (default 10 s, and up to twice that). */
  undeliveredWorkMs?: number;
}
