import type {
  Architecture,
  DeviceStatus,
  Hardware,
  Metrics,
  Network,
  OsType,
} from '../../../protocol/index.ts';

/** What rules read of a device in memory. Times are in milliseconds. */
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
  /** Names of what is installed. Empty where nobody has asked for them: see `Conditions.reads`. */
  software: readonly string[];
  customFields: Readonly<Record<string, unknown>>;
}
