import type { Heartbeat, MachineIdentity, Metrics, Presence } from '../../protocol/index.ts';

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

/** What an agent reports about its machine. It is written only when it has changed. */
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
