import type { Heartbeat, Metrics, Presence, RefusalCode, DeviceSummary } from '../protocol/index.ts';
import type { Caller, ClientInfo } from '../platform/context.ts';

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

export interface DeviceStore {
  recordPresence(records: readonly PresenceRecord[]): Promise<void>;
  recordReports(records: readonly ReportRecord[]): Promise<void>;
  /** Which devices report without a connection, and until when (in ms) they count as online; of those asked for also
   * the connected ones, with `null`. */
  reporting(deviceIds?: readonly string[]): Promise<{ deviceId: string; until: number | null }[]>;
  recordFacts(facts: readonly DeviceFacts[]): Promise<void>;
  /** Nothing is connected to a hub that only starts: whatever the last run left as connected is lost. */
  markAllLost(): Promise<void>;
  /** What a subscriber sees at first, within the caller's scope. Throws `forbidden` for a foreign organization. */
  summaries(
    caller: Caller,
    filter: { orgId?: string | undefined; siteId?: string | undefined },
  ): Promise<DeviceSummary[]>;
}

export interface People {
  /** The caller behind a token; throws when it is not valid any more. */
  authenticate(token: string, client: ClientInfo): Promise<Caller>;
}
