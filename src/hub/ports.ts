import type {
  CommandProgress,
  CommandSecrets,
  DeviceSummary,
  DurableCommandType,
  Heartbeat,
  JobsSubscribe,
  JobUpdate,
  Metrics,
  Presence,
  RefusalCode,
} from '../protocol/index.ts';
import type { Caller, ClientInfo } from '../platform/context.ts';
import type { Aspect, FleetDevice } from './filters/fleet-device.ts';

/** What the hub needs from the features above it. */

/** A device as its credential names it. */
export interface AgentIdentity {
  deviceId: string;
  orgId: string;
  siteId: string;
  partnerId: string;
}

export interface RefusedVerdict {
  ok: false;
  code: Extract<RefusalCode, 'UNAUTHENTICATED' | 'DECOMMISSIONED' | 'TENANT_INACTIVE'>;
}
export interface GoodVerdict {
  ok: true;
  identity: AgentIdentity;
  /** This was the first use of a new token, which has ended the one before it. */
  isFirstUse?: true;
}
export type Verdict = GoodVerdict | RefusedVerdict;

export interface AgentCredentials {
  /** Whose token this is. Answered from a bounded cache where it can be. */
  verify(token: string): Promise<Verdict>;
  /** What is remembered of the devices' tokens, or of all tokens, does not hold any more. */
  forget(deviceIds: readonly string[] | 'all'): void;
  /** Those of the devices that may not be connected any more, and why. */
  lapsed(deviceIds: readonly string[]): Promise<{ deviceId: string; code: RefusedVerdict['code'] }[]>;
}

/** One device's state of connection, written behind. The epoch keeps a late writer from changing anything. */
export interface PresenceRecord {
  deviceId: string;
  epoch: number;
  presence: Presence;
  lastSeenAt: string | null;
  lastIp: string | null;
  metrics: Metrics | null;
  uptimeSeconds: number | null;
}

/** What an agent says of its machine; written only when it has changed. */
export interface DeviceFacts
  extends Pick<
    Heartbeat,
    'osVersion' | 'osBuild' | 'watchdogVersion' | 'lastUser' | 'pendingReboot' | 'autoUpdate'
  > {
  deviceId: string;
  agentVersion: string;
  /** Undefined where it was not said: what is known stays. */
  capabilities: readonly string[] | undefined;
}

/** A heartbeat that came without a connection, written behind: the device counts as online until then. */
export interface ReportRecord
  extends Pick<PresenceRecord, 'deviceId' | 'lastIp' | 'metrics' | 'uptimeSeconds'> {
  until: string;
  lastSeenAt: string;
}

/** Somebody asks devices for entries of their logs. */
export interface LogRead {
  caller: Caller;
  client: ClientInfo;
  deviceIds: readonly string[];
  /** `live`: what is there at this moment; `tail`: also what comes. */
  how: 'live' | 'tail';
  /** The log and what entries are asked for. */
  conditions: object;
}

export interface LogReads {
  /** Puts the read into the audit trail. The entry is written soon after; nobody waits for it. */
  record(read: LogRead): void;
}

/** By device, the addresses it came from since its last record was written and before the one in its record, in order. */
export type PassedAddresses = ReadonlyMap<string, readonly string[]>;

export interface DeviceStore {
  recordPresence(records: readonly PresenceRecord[], passed?: PassedAddresses): Promise<void>;
  recordReports(records: readonly ReportRecord[], passed?: PassedAddresses): Promise<void>;
  /** Which devices report without a connection, and until when (in ms) they count as online; of those asked for also
   * the connected ones, with `null`. */
  reporting(deviceIds?: readonly string[]): Promise<{ deviceId: string; until: number | null }[]>;
  /** Answers of which devices it was something new. */
  recordFacts(facts: readonly DeviceFacts[]): Promise<readonly string[]>;
  /**
   * Marks what a node has left behind as connected: of one that is gone, or of all but those that are there. Answers
   * which devices that were, and under which claim.
   */
  markLost(
    nodes: { of: string } | { allBut: readonly string[] },
  ): Promise<{ deviceId: string; presence: Presence; epoch: number }[]>;
  /** The greatest epoch under which presence was ever stored, 0 where none was. */
  greatestEpoch(): Promise<number>;
  /** Which of the devices the caller may ask at this moment; of the others why not. One round trip. */
  askable(
    caller: Caller,
    deviceIds: readonly string[],
  ): Promise<Map<string, { refusal: string | undefined }>>;
  /**
   * The devices that a saved filter finds. Throws `not_found` for a filter that the caller does not see, and
   * `validation_failed` for one that finds more than `atMost`, or names what is not there any more.
   */
  found(caller: Caller, filterId: string, atMost: number): Promise<string[]>;
  /**
   * A page of what a subscriber sees at first, within the caller's scope: by organization and id, those behind `after`.
   * Throws `forbidden` for a foreign organization.
   */
  summaries(
    caller: Caller,
    filter: { orgId?: string | undefined; siteId?: string | undefined },
    page: { after: { orgId: string; id: string } | undefined; atMost: number },
  ): Promise<DeviceSummary[]>;
  /** Those of the devices that are in service, and whose they are, in one query. */
  summariesOf(deviceIds: readonly string[]): Promise<{ device: DeviceSummary; partnerId: string }[]>;
}

/** A command of the ledger, marked as sent under this claim. */
export interface DispatchedCommand {
  id: string;
  deviceId: string;
  type: DurableCommandType;
  payload: unknown;
  attempt: number;
  epoch: number;
  deadline: string;
  /** What the references in the payload stand for: for the frame only, never for the log or another store. */
  secrets?: CommandSecrets;
}

/** A connected device that may be sent work. */
export interface CommandClaim {
  deviceId: string;
  epoch: number;
  knowsLanes: boolean;
  isUncertain?: boolean;
}

/** How a device's work has come on. */
export type CommandEvent = { id: string; deviceId: string } & (
  | { kind: 'accepted' }
  /** The device takes no more now: the command waits again. */
  | { kind: 'postponed' }
  | { kind: 'running'; progress?: Omit<CommandProgress, 'id' | 'seq'> }
  | { kind: 'finished'; end: CommandEnd }
);
export interface CommandEnd {
  status: 'succeeded' | 'failed' | 'cancelled' | 'timed_out';
  output?: unknown;
  error?: { code: string; message: string };
}

/** A job that has changed, and whose it is. */
export interface JobChange {
  update: JobUpdate;
  partnerId: string;
}

/** Durable work: what is in it is done once, whatever dies (DESIGN 4.7). */
export interface CommandLedger {
  /**
   * Takes what the devices may be sent now, in the order of creation, and no more in each lane than a device works on at
   * once; of an agent that knows no lanes two commands. Devices of a suspended organization get nothing.
   * What was sent under an earlier claim and never acknowledged is among it again. `cancelled` are those on the device
   * that are to end. After a call that failed the claim is uncertain: the call may have marked commands all the same,
   * which nobody has sent. Those marked under the same claim are among it again then.
   */
  take(claims: readonly CommandClaim[]): Promise<{
    dispatched: DispatchedCommand[];
    cancelled: { id: string; deviceId: string }[];
    changed: JobChange[];
  }>;
  /** Events of commands that are not this device's, unknown or over change nothing. Answers what has changed. */
  record(events: readonly CommandEvent[]): Promise<JobChange[]>;
  /**
   * Devices that have work to be told of: commands that were not sent yet, and commands that are to end. In the order of
   * their ids, those behind `after`.
   */
  undelivered(after: string | undefined, atMost: number): Promise<string[]>;
  /** Ends what waited or took too long. */
  sweep(): Promise<JobChange[]>;
  /**
   * Of the work that the caller may see: what is open, newest first; the job that is named, whatever its state. Throws
   * `forbidden` for a foreign organization, `not_found` for a device or job that the caller does not see.
   */
  jobs(caller: Caller, filter: JobsSubscribe): Promise<JobUpdate[]>;
}

/** Conditions that were checked, as live filters ask them. */
export interface LiveRules {
  /** Where none of it has changed, the answer is the one of before. */
  readonly reads: ReadonlySet<Aspect>;
  /** The keys of the custom fields that they read, each as it was defined. */
  readonly customFields: ReadonlySet<string>;
  /** Whether the answer can change while the device does not. */
  readonly dependsOnTime: boolean;
  /** How much memory and time they take of whoever follows them: conditions, and characters of regular expressions. */
  readonly weight: number;
  /** @param now  in milliseconds */
  matches(device: FleetDevice, now: number): boolean;
}

/** What live filters need: whole devices, and what conditions say of them. */
export interface FleetStore {
  /**
   * The conditions, or those of the saved filter. Rules with the same key answer the same. Throws where they are faulty,
   * and `not_found` for a filter that the caller does not see.
   */
  rules(
    caller: Caller,
    asked: { filterId?: string | undefined; conditions?: unknown },
  ): Promise<{ key: string; rules: LiveRules }>;
  /** The organizations in which the caller sees devices, or would, and how many there are in each. */
  reach(
    caller: Caller,
    filter: { orgId?: string | undefined },
  ): Promise<{ orgId: string; devices: number }[]>;
  /** Devices in service of the organizations, by organization and id, those behind `after`. */
  slice(
    orgIds: readonly string[],
    options: { after: { orgId: string; id: string } | undefined; atMost: number; withSoftware: boolean },
  ): Promise<FleetDevice[]>;
  /** Those of the devices that are in service. */
  devices(deviceIds: readonly string[], options: { withSoftware: boolean }): Promise<FleetDevice[]>;
}

export interface People {
  /** The caller behind a token; throws when it is not valid any more. */
  authenticate(token: string, client: ClientInfo): Promise<Caller>;
  /** Counts one use of an API key; throws `rate_limited` over its limit. */
  countUse(caller: Caller): Promise<void>;
}
