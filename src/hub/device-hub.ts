import type { ClusterEvents } from '../platform/cluster/cluster-events.ts';
import type { DeviceSummary, Heartbeat, HeartbeatAck } from '../protocol/index.ts';
import type { AccessOptions } from './dashboard/dashboard-access.ts';
import type { RunLiveQuery } from './device/live-query.ts';
import type { RulesChange } from './filters/live-filters.ts';
import type {
  AgentIdentity,
  UpgradeReport,
  Claimant,
  JobChange,
  AgentCredentials,
  UpgradeHistory,
  UpgradeOffers,
  CommandLedger,
  LongWork,
  DeviceStore,
  FleetStore,
  LogReads,
  TerminalStore,
  MetricHistory,
  DeviceServices,
  People,
} from './ports.ts';
import type { ServeSockets } from './sockets.ts';
import type { DevicePatch } from './subscriptions/device-change.ts';
import type { Server as HttpServer } from 'node:http';
import type { NodeBus } from '../platform/cluster/node-bus.ts';
import type { ProxyTrust } from '../platform/http/client-address.ts';
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { Directory, Reach } from './cluster/directory.ts';
import type { HubMessage } from './cluster/messages.ts';
import type { DashboardLimits } from './dashboard/dashboard-limits.ts';
import type { AdmissionLimits } from './wire/admission.ts';
import type { WirePath } from './wire/agent-wire.ts';

/** The hub as features use it. */
export interface DeviceHub {
  query: RunLiveQuery;
  /** Events that nodes announce to each other. Each topic is declared by the part that owns the event. */
  readonly events: Pick<ClusterEvents, 'publish' | 'subscribe' | 'onPublished'>;
  /** Processes a heartbeat that came over HTTP. Throws `device_busy` or `unavailable`, after which the agent retries. */
  heartbeat(agent: AgentIdentity, heartbeat: Heartbeat, ip: string): Promise<HeartbeatAck>;
  /** Records what a device reports about an upgrade over HTTP. Throws `unavailable` when it has to be sent again. */
  upgradeReported(report: UpgradeReport): Promise<void>;
  /** A device was created or is back in service. Subscribers in whose scope it is see it enter. */
  deviceEntered(device: DeviceSummary, partnerId: string): void;
  deviceChanged(deviceId: string, patch: DevicePatch): void;
  /** Stored records of devices have changed, or the devices are back in service. Subscribers on all nodes are updated. */
  devicesChanged(deviceIds: readonly string[]): void;
  /** As `devicesChanged`; in addition their agents reconnect, because the devices belong to another organization or site. */
  devicesMoved(deviceIds: readonly string[]): void;
  /** A device was decommissioned: its connection ends and subscribers see it leave. */
  deviceLeft(deviceId: string): void;
  /** The same for a device whose agent goes on as another device, and reconnects at once. */
  deviceReplaced(deviceId: string): void;
  /** The program that is connected as the device, on whichever server, and is alive at this moment. */
  provenHolder(deviceId: string): Promise<Claimant | undefined>;
  /** The averages of many devices were computed anew. Live device lists on this node whose conditions read them follow. */
  averagesChanged(): void;
  /** Compiles conditions of live device lists on this node again, because a definition that they use has changed. */
  rulesChanged(change: RulesChange): void;
  /** The state of a device whose connection this node owns, or owned until a moment ago. */
  live(deviceId: string): LiveDevice | undefined;
  /** There is new work for the device in the ledger. */
  deliver(deviceId: string): void;
  /** Jobs have changed in the ledger without a report from a device. */
  jobsChanged(jobs: readonly JobChange[]): void;
  /** Asks the device to cancel a command that it may have received. */
  cancelCommand(deviceId: string, commandId: string): void;
  /** Ends the connection, so that the agent reconnects under what is valid now. */
  disconnect(deviceId: string): void;
}

/** The report of a connected device about itself, before it is stored. */
interface LiveDevice {
  isConnected: boolean;
  /** As the handshake lists them. */
  capabilities: readonly string[];
  agentVersion: string;
  /** Undefined until a heartbeat has named it. */
  watchdogVersion: string | undefined;
}

/** The hub as the server uses it. */
export interface Hub extends DeviceHub {
  start(): Promise<void>;
  /** Publishes again which devices this node owns, because other nodes may have considered it lost. */
  republish(): void;
  /** Rights or tenants have changed. @param payloads  as the database announces them */
  accessChanged(payloads: readonly string[]): void;
  /** Watches the rights of a caller to whom an answer is being sent, like those of a dashboard connection. */
  watchRights(options: Pick<AccessOptions, 'caller' | 'authenticate' | 'onLost'>): { close(): void };
  /** Long work has changed. @param payloads  as the database announces them */
  longWorkChanged(payloads: readonly string[]): void;
  /** Announcements of changed work may have been missed. */
  longWorkMayHaveChanged(): void;
  /** Announcements of changed rights may have been missed. */
  accessMayHaveChanged(): void;
  /** Another node has claimed the device while this one could not be notified. */
  superseded(deviceId: string, epoch: number): void;
  /** Another node has claimed the device under the same epoch. */
  claimTied(deviceId: string): void;
  /** Refuses new connections and disconnects agents with reconnect times that are spread. */
  drain(): Promise<void>;
  /** Does now what waits for a timer: writes, deliveries and what dashboards are shown. */
  settle(): Promise<void>;
  close(): Promise<void>;
  readonly connected: number;
}

export interface HubOptions {
  httpServer: HttpServer;
  /** How agents and dashboards connect (default: by Socket.IO). */
  serve?: ServeSockets;
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
  /** Offers and reports of upgrades. Without it nothing is offered, and reports are dropped. */
  upgrades?: { offers: UpgradeOffers; history: UpgradeHistory };
  /** Keeps the samples of devices. Without it, agents keep theirs. */
  metricHistory?: MetricHistory;
  /** Keeps the services of devices. Without it, agents keep theirs. */
  deviceServices?: DeviceServices;
  /** The audit trail of live log reads. Without it they are not recorded. */
  logReads?: LogReads;
  /** Without it, dashboards open no terminals. */
  terminals?: TerminalStore;
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
  /** How the messages of agents are read and written (default `direct`). */
  agentWire?: WirePath;
  /** How often this node looks for undelivered commands of its devices (default 10 s, and up to twice that). */
  undeliveredWorkMs?: number;
}
