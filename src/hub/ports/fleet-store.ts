import type { Caller } from '../../platform/context.ts';
import type {
  Architecture,
  DeviceStatus,
  Hardware,
  Metrics,
  Network,
  OsType,
  Presence,
} from '../../protocol/index.ts';

/** The fields of a device that conditions may read and that can change, each tracked separately. */
export const DEVICE_FIELDS = [
  'orgId',
  'siteId',
  'groupIds',
  'hostname',
  'displayName',
  'agentVersion',
  'status',
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
  presence: Presence;
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

/** What live filters need: full device records and compiled conditions. */
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
  /** Those of the devices that are in service. */
  devices(deviceIds: readonly string[], options: { withSoftware: boolean }): Promise<FleetDevice[]>;
}
