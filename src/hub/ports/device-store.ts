import type { Caller } from '../../platform/context.ts';
import type { DeviceSummary, Presence } from '../../protocol/index.ts';
import type { IdentityConflict } from './identity-conflicts.ts';
import type { AddressHistory, DeviceFacts, PresenceRecord, ReportRecord } from './presence-records.ts';

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
   * Marks devices as disconnected whose node is gone: the devices of one node, or of every node except those listed.
   * Returns the devices that were marked, each with the epoch of its claim.
   */
  markLost(
    nodes: { of: string } | { allBut: readonly string[] },
  ): Promise<{ deviceId: string; presence: Presence; epoch: number }[]>;
  /** The greatest epoch under which presence was ever stored, or 0. */
  greatestEpoch(): Promise<number>;
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
  ): Promise<DeviceSummary[]>;
  /** In one query: those of the devices that are in service, each with the partner it belongs to. */
  summariesOf(deviceIds: readonly string[]): Promise<{ device: DeviceSummary; partnerId: string }[]>;
}
