import type {
  Architecture,
  DeviceStatus,
  Hardware,
  Metrics,
  Network,
  OsType,
} from '../../../protocol/index.ts';

/** A device for evaluation in memory. Times are in milliseconds. */
export interface MatchableDevice {
  id: string;
  orgId: string;
  siteId: string;
  groupIds: readonly string[];
  hostname: string;
  displayName: string | null;
  agentVersion: string;
  status: DeviceStatus;
  enrolledAt: number;
  lastSeenAt: number | null;
  tags: readonly string[];
  osType: OsType;
  osVersion: string;
  osBuild: string | null;
  architecture: Architecture;
  hardware: Hardware;
  network: Network;
  metrics: Metrics | null;
  /** Names of installed software. Empty if they were not requested; see `Conditions.reads`. */
  software: readonly string[];
  customFields: Readonly<Record<string, unknown>>;
}
