import type {
  Architecture,
  DeviceStatus,
  DeviceSummary,
  Hardware,
  Metrics,
  Network,
  OsType,
  Presence,
} from '../protocol/index.ts';

/** What can change of a device, as far as conditions tell it apart. */
export type Aspect = 'presence' | 'lastSeen' | 'metrics' | 'software' | 'groups' | 'custom' | 'facts';

/** A device as live filters see it. Times are in milliseconds. What the live side hears is written into it. */
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
  /** Names; empty while no condition reads them. */
  software: readonly string[];
  readonly customFields: Readonly<Record<string, unknown>>;
}

export const summaryOf = (device: FleetDevice): DeviceSummary => ({
  id: device.id,
  orgId: device.orgId,
  siteId: device.siteId,
  hostname: device.hostname,
  displayName: device.displayName,
  osType: device.osType,
  agentVersion: device.agentVersion,
  status: device.status,
  presence: device.presence,
  lastSeenAt: device.lastSeenAt === null ? null : new Date(device.lastSeenAt).toISOString(),
  metrics: device.metrics,
});

/** What of it can be told live, as a summary has it. */
export function setLive(device: FleetDevice, live: DeviceSummary): void {
  device.agentVersion = live.agentVersion;
  device.status = live.status;
  device.presence = live.presence;
  device.lastSeenAt = live.lastSeenAt === null ? null : Date.parse(live.lastSeenAt);
  device.metrics = asStored(live.metrics);
}

/** In hundredths, as the database keeps them: conditions mean the same here and there. */
export function asStored(metrics: Metrics | null): Metrics | null {
  if (metrics === null) return null;
  return {
    cpuPercent: hundredths(metrics.cpuPercent),
    ramPercent: hundredths(metrics.ramPercent),
    diskPercent: hundredths(metrics.diskPercent),
  };
}

const hundredths = (value: number) => Math.round(value * 100) / 100;

/** Aspects as bits, so that one comparison tells whether conditions read anything of what has changed. */
export type Aspects = number;

const BIT: Record<Aspect, Aspects> = {
  presence: 1,
  metrics: 2,
  software: 4,
  groups: 8,
  custom: 16,
  facts: 32,
  lastSeen: 64,
};
export const ALL_ASPECTS: Aspects = 127;
export const NOTHING: Aspects = 0;

export function aspectsOf(names: Iterable<Aspect>): Aspects {
  let aspects = NOTHING;
  for (const name of names) aspects |= BIT[name];
  return aspects;
}

/** In which aspects two states of one device differ. */
export function differences(before: FleetDevice, after: FleetDevice): Aspects {
  let aspects = NOTHING;
  if (before.status !== after.status) aspects |= BIT.presence;
  if (before.lastSeenAt !== after.lastSeenAt) aspects |= BIT.lastSeen;
  if (!isSame(before.metrics, after.metrics)) aspects |= BIT.metrics;
  if (!isSame(before.software, after.software)) aspects |= BIT.software;
  if (!isSame(before.groupIds, after.groupIds)) aspects |= BIT.groups;
  if (!isSame(before.customFields, after.customFields)) aspects |= BIT.custom;
  if (!FACTS.every((name) => isSame(before[name], after[name]))) aspects |= BIT.facts;
  return aspects;
}

const FACTS = [
  'orgId',
  'siteId',
  'hostname',
  'displayName',
  'agentVersion',
  // A person's decision about a device is a fact, though it shows in its status.
  'status',
  'enrolledAt',
  'tags',
  'osType',
  'osVersion',
  'osBuild',
  'architecture',
  'hardware',
  'network',
] as const;

/** Of plain data. What is the same in another order counts as different, which costs a look and no more. */
function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object') return false;
  return JSON.stringify(one) === JSON.stringify(other);
}
