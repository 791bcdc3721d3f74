import {
  type Architecture,
  type OsType,
  type PlannedMaintenance,
  type RefusalCode,
  type UpdateStatus,
  type UpgradableComponent,
  type Upgrade,
  type CommandProgress,
  type CommandSecrets,
  type DurableCommandType,
  type JobsSubscribe,
  JobUpdate,
  type DeviceSummary,
  type Presence,
  type MachineIdentity,
  type MetricSamples,
  type ServiceReport,
  type Heartbeat,
  type Metrics,
  type DeviceStatus,
  type TerminalEnd,
  type TerminalSize,
  type Hardware,
  type Network,
} from '../protocol/index.ts';
import type { Caller, ClientInfo } from '../platform/context.ts';
import { z } from 'zod';

/** The interfaces through which the hub uses the features above it. */

/** The stored facts of a device that decide about its upgrades. */
export interface UpgradableMachine {
  readonly osType: OsType;
  readonly architecture: Architecture;
  readonly autoUpdate: boolean;
  /** Whether its agent installs releases by itself. */
  readonly canUpgrade: boolean;
}

/** A device, as identified by its credential. */
export interface AgentIdentity {
  deviceId: string;
  orgId: string;
  siteId: string;
  partnerId: string;
  machine: UpgradableMachine;
  /** Set for a device that waits for approval: it may connect and send heartbeats, and is given nothing. */
  isPending?: true;
  /** The id that the agent uses for itself, if its device was replaced by another record. */
  enrolledAs?: string;
}

export interface RefusedVerdict {
  ok: false;
  code: Extract<RefusalCode, 'UNAUTHENTICATED' | 'DECOMMISSIONED' | 'TENANT_INACTIVE'>;
}
interface GoodVerdict {
  ok: true;
  identity: AgentIdentity;
  /** Set when this was the first use of a new token, which revokes the previous one. */
  isFirstUse?: true;
}
export type Verdict = GoodVerdict | RefusedVerdict;

export interface AgentCredentials {
  /** Verifies a token. Answers come from a bounded cache if possible. */
  verify(token: string): Promise<Verdict>;
  /** Drops the cached verdicts of these devices, or all of them. */
  forget(deviceIds: readonly string[] | 'all'): void;
  /** Returns those of the devices that may no longer be connected, each with the reason. */
  lapsed(deviceIds: readonly string[]): Promise<{ deviceId: string; code: RefusedVerdict['code'] }[]>;
}

/** The facts that decide about the upgrades of a device, as far as the hub knows them. */
export interface OfferQuestion {
  identity: AgentIdentity;
  /** As the agent listed them in its handshake; undefined over HTTP, where the recorded ones count. */
  capabilities: readonly string[] | undefined;
  agentVersion: string;
  watchdogVersion: string | undefined;
  /** As the agent reports it; undefined if it does not. */
  autoUpdate: boolean | undefined;
}

/** An answer that counts while the revision is the same, until a time in milliseconds, for a device whose facts are the same. */
export interface Offer {
  readonly upgrade: Upgrade[];
  readonly revision: number;
  readonly until: number;
}

/** Decides what devices should install. Every answer comes from memory. */
export interface UpgradeOffers {
  /** Changes with whatever may change the answers to many devices. */
  readonly revision: number;
  offer(question: OfferQuestion, now: number): Offer;
  /** @param listener  called with a device whose earlier answer no longer counts, although the revision is the same */
  onDeviceChanged(listener: (deviceId: string) => void): void;
}

/** A report of a device about one of its upgrades. */
export interface UpgradeReport extends Omit<UpdateStatus, 'component'> {
  deviceId: string;
  component: UpgradableComponent;
}

/** The ends of the upgrades of each device. */
export interface UpgradeHistory {
  /**
   * Records reports of any devices. A report that is known changes nothing.
   * @returns the devices whose status has changed by it
   */
  record(reports: readonly UpgradeReport[]): Promise<readonly string[]>;
}

/** Samples of a device's figures, as its agent sent them; null in place of those that are not valid. */
export interface MetricReport extends MetricSamples {
  deviceId: string;
}

/** The metric history of devices. */
export interface MetricHistory {
  /**
   * Stores samples of any devices. Samples that are known change nothing.
   * @returns the devices whose samples are stored; the others have to send theirs again
   */
  record(reports: readonly MetricReport[]): Promise<ReadonlySet<string>>;
}

/** What a device reported about its services. */
export interface DeviceServiceReport {
  deviceId: string;
  report: ServiceReport;
}

/** The services of devices. */
export interface DeviceServices {
  /**
   * Stores reports of any devices, in the order of their arrival.
   * @returns the devices whose reports are stored; the others have to send theirs again
   */
  record(reports: readonly DeviceServiceReport[]): Promise<ReadonlySet<string>>;
}

const NOTHING: Offer = { upgrade: [], revision: 0, until: Number.POSITIVE_INFINITY };

/** For a hub without releases. */
export const NO_UPGRADE_OFFERS: UpgradeOffers = {
  revision: 0,
  offer: () => NOTHING,
  onDeviceChanged() {},
};

/** A job that has changed, with what decides which people may see it. */
export const JobChange = z.object({
  update: JobUpdate,
  partnerId: z.string(),
  /** The permission that a user needs beside `devices:read`. */
  permission: z.string().optional(),
});
export type JobChange = z.infer<typeof JobChange>;

/** Rows of one kind of work that have changed, as the database announces them. */
export const LongWorkNotice = z.object({ kind: z.string(), ids: z.array(z.uuid()).max(500) });
export type LongWorkNotice = z.infer<typeof LongWorkNotice>;

/** Work that takes long and is no command, such as a backup. Dashboards are shown it beside the commands. */
export interface LongWork {
  /** The present state of the work. What does not exist is left out. */
  read(notice: LongWorkNotice): Promise<JobChange[]>;
  /** All open work, and what has ended since. */
  since(at: Date): Promise<JobChange[]>;
  /**
   * The open work that the caller may see, newest first, or the one that the filter names, whatever its state. Empty if
   * there is none. Whether the caller may see the organization or the device of the filter has been checked.
   */
  shown(caller: Caller, filter: JobsSubscribe): Promise<JobUpdate[]>;
}

/** A command of the ledger that is marked as dispatched under this epoch. */
export interface DispatchedCommand {
  id: string;
  deviceId: string;
  type: DurableCommandType;
  payload: unknown;
  attempt: number;
  epoch: number;
  deadline: string;
  /** The values of the references in the payload. Only for the frame: never logged and never stored elsewhere. */
  secrets?: CommandSecrets;
}

/** A connected device that may be sent commands. */
export interface CommandClaim {
  deviceId: string;
  epoch: number;
  /** Whether its agent runs commands in lanes. */
  knowsLanes: boolean;
  /** An earlier call with this claim failed, so it may have marked commands that were never sent. */
  isUncertain?: boolean;
}

/** A change in the state of a command, as its device reports it. */
export type CommandEvent = { id: string; deviceId: string } & (
  | { kind: 'accepted' }
  /** The device did not accept it this time, so the command waits again. */
  | { kind: 'postponed'; attempt: number }
  | { kind: 'running'; progress?: Omit<CommandProgress, 'id' | 'seq'> }
  | { kind: 'finished'; end: CommandEnd }
);
export interface CommandEnd {
  status: 'succeeded' | 'failed' | 'cancelled' | 'timed_out';
  output?: unknown;
  error?: { code: string; message: string };
}

/** Durable commands: each takes effect once, even when processes fail (DESIGN 4.7). */
export interface CommandLedger {
  /**
   * Marks the commands that the devices may be sent now as dispatched and returns them, in the order in which they were
   * created: in each lane at most as many as a device runs at once, and two for an agent that knows no lanes. Devices of a
   * suspended organization get none. Commands that were sent under an earlier claim and never acknowledged are returned
   * again, and under an uncertain claim also those that were marked under the same epoch. `cancelled` lists commands on a
   * device that have to end.
   */
  take(claims: readonly CommandClaim[]): Promise<{
    dispatched: DispatchedCommand[];
    cancelled: { id: string; deviceId: string }[];
    changed: JobChange[];
  }>;
  /** Records events. An event of an unknown, finished or another device's command changes nothing. */
  record(events: readonly CommandEvent[]): Promise<JobChange[]>;
  /** Devices with commands that were not sent yet or have to be cancelled, ordered by id, starting after `after`. */
  undelivered(after: string | undefined, atMost: number): Promise<string[]>;
  /** Ends commands that have expired or timed out. */
  sweep(): Promise<JobChange[]>;
  /**
   * The open commands that the caller may see, newest first, or the one that the filter names, whatever its state; empty
   * if there is none. Throws `forbidden` for an organization outside the scope and `not_found` for a device that the
   * caller does not see.
   */
  jobs(caller: Caller, filter: JobsSubscribe): Promise<JobUpdate[]>;
}

/** A connected device of which the database says something else. */
export interface MisrecordedDevice {
  deviceId: string;
  /**
   * `outdated`: its presence is stored under a greater epoch than that of its claim, so nothing that it reports has an
   * effect. `disconnected`: stored under the epoch of its claim, or a smaller one, but as disconnected.
   */
  difference: 'outdated' | 'disconnected';
}

/** The stored state of devices. */
export interface DeviceStore {
  recordPresence(records: readonly PresenceRecord[], addresses?: AddressHistory): Promise<void>;
  recordReports(records: readonly ReportRecord[], addresses?: AddressHistory): Promise<void>;
  /**
   * Returns the devices that report over HTTP, with the time (in ms) until which they count as online. When device ids
   * are given, connected devices among them are returned as well, with `null`.
   */
  reporting(deviceIds?: readonly string[]): Promise<{ deviceId: string; until: number | null }[]>;
  /**
   * Returns the ids of the devices whose stored facts changed.
   * @param onPostponed  called with those whose host name has changed too often: they have to report it again
   */
  recordFacts(
    facts: readonly DeviceFacts[],
    onPostponed?: (deviceIds: readonly string[]) => void,
  ): Promise<readonly string[]>;
  /** Raises an alert for two programs that use one device. */
  recordConflict(conflict: IdentityConflict): Promise<void>;
  /**
   * Marks devices as disconnected whose node is gone: the devices of one node (all of them, or the given ones), or of
   * every node except those listed.
   * Returns the devices that were marked, each with the epoch of its claim.
   */
  markLost(
    nodes: { of: string; deviceIds?: readonly string[] } | { allBut: readonly string[] },
  ): Promise<{ deviceId: string; presence: Presence; epoch: number }[]>;
  /** The greatest epoch under which presence was ever stored, or 0. */
  greatestEpoch(): Promise<number>;
  /** Compares what is stored with devices that are connected under these claims, and returns those that differ. */
  misrecorded(claims: readonly { deviceId: string; epoch: number }[]): Promise<MisrecordedDevice[]>;
  /**
   * Checks in one round trip which of the devices the caller may query now. A device that the caller does not see is
   * missing from the answer; `refusal` says why another one may not be queried.
   */
  askable(
    caller: Caller,
    deviceIds: readonly string[],
  ): Promise<Map<string, { refusal: string | undefined }>>;
  /**
   * The devices that match a saved filter. Throws `not_found` for a filter that the caller does not see, and
   * `validation_failed` for one that matches more than `atMost` devices or refers to something that no longer exists.
   */
  found(caller: Caller, filterId: string, atMost: number): Promise<string[]>;
  /**
   * One page of a subscriber's device list within the caller's scope, ordered by organization and id, starting after
   * `after`. Throws `forbidden` for an organization outside the scope.
   */
  summaries(
    caller: Caller,
    filter: { orgId?: string | undefined; siteId?: string | undefined },
    page: { after: { orgId: string; id: string } | undefined; atMost: number },
  ): Promise<StoredDevice[]>;
  /** In one query: those of the devices that are in service, each with the partner it belongs to. */
  summariesOf(deviceIds: readonly string[]): Promise<(StoredDevice & { partnerId: string })[]>;
}

export interface StoredDevice {
  device: DeviceSummary;
  /** Of the claim under which presence was stored; 0 if the device has never connected. */
  epoch: number;
}

/** A program that uses the token of a device, as it described itself when it connected. */
export interface Claimant extends MachineIdentity {
  bootId: string;
  ip: string;
}

/** Two programs that use one device at the same time. */
export interface IdentityConflict {
  deviceId: string;
  orgId: string;
  /** The one that keeps the connection. */
  holder: Claimant;
  other: Claimant;
}

/** The connection state of one device, written in batches. The epoch makes a late write have no effect. */
export interface PresenceRecord {
  deviceId: string;
  epoch: number;
  presence: Presence;
  lastSeenAt: string | null;
  lastIp: string | null;
  metrics: Metrics | null;
  uptimeSeconds: number | null;
}

/** An agent's report about its machine. It is written only when it has changed. */
export interface DeviceFacts
  extends Pick<
      Heartbeat,
      'osVersion' | 'osBuild' | 'watchdogVersion' | 'lastUser' | 'pendingReboot' | 'autoUpdate'
    >,
    MachineIdentity {
  deviceId: string;
  agentVersion: string;
  /** Undefined when the report did not include them: the stored capabilities stay. */
  capabilities: readonly string[] | undefined;
}

/** A heartbeat that came over HTTP, without a connection. The device counts as online until `until`. */
export interface ReportRecord
  extends Pick<PresenceRecord, 'deviceId' | 'lastIp' | 'metrics' | 'uptimeSeconds'> {
  until: string;
  lastSeenAt: string;
}

/**
 * By device, in order: the addresses the device used after its last written record and before the one in the record that
 * is written now.
 */
export type AddressHistory = ReadonlyMap<string, readonly string[]>;

/** The fields of a device that conditions may read, or lists show, and that can change, each tracked separately. */
export const DEVICE_FIELDS = [
  'orgId',
  'siteId',
  'groupIds',
  'hostname',
  'displayName',
  'agentVersion',
  'status',
  'maintenance',
  'enrolledAt',
  'lastSeenAt',
  'tags',
  'osType',
  'osVersion',
  'osBuild',
  'architecture',
  'hardware',
  'network',
  'metrics',
  'averages',
  'software',
  'customFields',
] as const;
export type DeviceField = (typeof DEVICE_FIELDS)[number];

/** A device as live filters hold it. Times are in milliseconds. The mutable fields follow live changes. */
export interface FleetDevice {
  readonly id: string;
  readonly orgId: string;
  readonly partnerId: string;
  readonly siteId: string;
  readonly groupIds: readonly string[];
  readonly hostname: string;
  readonly displayName: string | null;
  agentVersion: string;
  status: DeviceStatus;
  readonly maintenance: PlannedMaintenance | null;
  presence: Presence;
  /** Of the claim under which presence was stored when the device was read; 0 if it has never connected. */
  readonly presenceEpoch: number;
  readonly enrolledAt: number;
  lastSeenAt: number | null;
  readonly tags: readonly string[];
  readonly osType: OsType;
  readonly osVersion: string;
  readonly osBuild: string | null;
  readonly architecture: Architecture;
  readonly hardware: Hardware;
  readonly network: Network;
  metrics: Metrics | null;
  /** Averages over time, by names such as `cpuPercent.1h`. */
  readonly averages: Readonly<Partial<Record<string, number>>>;
  /** Names of installed software, or `SOFTWARE_NOT_LOADED` while no condition reads them. */
  software: readonly string[];
  readonly customFields: Readonly<Record<string, unknown>>;
}

/** Validated conditions, in the form in which live filters evaluate them. */
export interface CompiledRules {
  /** The fields the conditions depend on: the result changes only when one of them changes. */
  readonly reads: ReadonlySet<DeviceField>;
  /** The keys of the custom fields that the conditions read. Each was compiled by the definition of that time. */
  readonly customFields: ReadonlySet<string>;
  /** Whether the result can change while the device does not. */
  readonly dependsOnTime: boolean;
  /** The cost in memory and time: the number of conditions plus the characters of their regular expressions. */
  readonly weight: number;
  /** @param now  in milliseconds */
  matches(device: FleetDevice, now: number): boolean;
}

/** The data of live filters: full device records and compiled conditions. */
export interface FleetStore {
  /**
   * Compiles the conditions, or those of the saved filter. Rules with the same key give the same results. Throws for
   * invalid conditions, and `not_found` for a filter that the caller does not see.
   */
  rules(
    caller: Caller,
    asked: { filterId?: string | undefined; conditions?: unknown },
  ): Promise<{ key: string; rules: CompiledRules }>;
  /** The organizations in which the caller may see devices, each with its number of devices. */
  reach(
    caller: Caller,
    filter: { orgId?: string | undefined },
  ): Promise<{ orgId: string; devices: number }[]>;
  /** Devices in service of the organizations, ordered by organization and id, starting after `after`. */
  slice(
    orgIds: readonly string[],
    options: { after: { orgId: string; id: string } | undefined; atMost: number; withSoftware: boolean },
  ): Promise<FleetDevice[]>;
  /** Reads those of the devices that are in service. */
  devices(deviceIds: readonly string[], options: { withSoftware: boolean }): Promise<FleetDevice[]>;
}

export interface People {
  /** The caller that a token identifies. Throws when the token is no longer valid. */
  authenticate(token: string, client: ClientInfo): Promise<Caller>;
  /** Counts one use of an API key. Throws `rate_limited` over its limit. */
  countUse(caller: Caller): Promise<void>;
}

/** A person's read of log entries from devices. */
export interface LogRead {
  caller: Caller;
  client: ClientInfo;
  deviceIds: readonly string[];
  /** `live`: entries that exist now; `tail`: also entries that are written later. */
  how: 'live' | 'tail';
  /** The log and the conditions on its entries. */
  conditions: object;
}

export interface LogReads {
  /** Adds the read to the audit trail. The entry is written shortly afterwards; callers do not wait for it. */
  record(read: LogRead): void;
}

/** A terminal that a person may view now. */
export interface GrantedTerminal {
  terminalId: string;
  /** With it, the terminal may be continued without another second factor. */
  resumeToken: string;
  /** Who views it, for the people at the device. */
  viewer: string;
  /** Up to which character of output the terminal is recorded. */
  recordedTo: number;
}

/** A part of a recording: events of asciicast v2, without their header. */
export interface TerminalRecordingPart {
  events: readonly { at: number; code: 'o' | 'r' | 'm'; text: string }[];
  recordedTo: number;
}

/** Who may have terminals, which there are, and their recordings. */
export interface TerminalStore {
  /**
   * Decides whether the person may open a terminal of the device now, and records that it is opened. Throws why not.
   */
  open(asked: {
    caller: Caller;
    client: ClientInfo;
    deviceId: string;
    size: TerminalSize;
  }): Promise<GrantedTerminal>;
  /** The same for a terminal that runs. */
  resume(asked: {
    caller: Caller;
    deviceId: string;
    terminalId: string;
    resumeToken: string | undefined;
  }): Promise<GrantedTerminal>;
  /** Notes that the terminals are viewed. Returns those that may not be viewed any more, with the reason. */
  keep(
    caller: Caller,
    terminals: readonly { terminalId: string; deviceId: string }[],
  ): Promise<ReadonlyMap<string, TerminalEnd>>;
  /** `full`: the recording has reached its size. */
  record(terminalId: string, part: TerminalRecordingPart): Promise<'stored' | 'full'>;
  /** Records that a terminal has ended. The first end counts. */
  ended(terminalId: string, end: { reason: TerminalEnd; exitCode: number | null }): Promise<void>;
}
