import type {
  Architecture,
  DeviceStatus,
  DeviceSummary,
  Hardware,
  Metrics,
  Network,
  OsType,
  Presence,
} from '../../protocol/index.ts';

/** What can change of a device, as far as conditions tell it apart: each part that they may read, by itself. */
const ASPECTS = [
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
export type Aspect = (typeof ASPECTS)[number];

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
  /** Names; `UNREAD` while no condition reads them. */
  software: readonly string[];
  readonly customFields: Readonly<Record<string, unknown>>;
}

/** Known by being this very list: a device may have none. */
export const UNREAD: readonly string[] = [];

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

const BITS = new Map<Aspect, Aspects>(ASPECTS.map((aspect, place) => [aspect, 1 << place]));
export const ALL_ASPECTS: Aspects = aspectsOf(ASPECTS);
export const NOTHING: Aspects = 0;

export function aspectsOf(names: Iterable<Aspect>): Aspects {
  let aspects: Aspects = 0;
  for (const name of names) aspects |= BITS.get(name) ?? 0;
  return aspects;
}

/** What of its record a summary shows. */
export const SHOWN: Aspects = aspectsOf([
  'orgId',
  'siteId',
  'hostname',
  'displayName',
  'osType',
  'agentVersion',
  'status',
]);

/** Where it belongs, on which it depends who sees it. */
export const PLACE: Aspects = aspectsOf(['orgId', 'siteId']);

/** In which aspects two states of one device differ. */
export const differences = (before: FleetDevice, after: FleetDevice): Aspects =>
  aspectsOf(ASPECTS.filter((aspect) => !isSame(before[aspect], after[aspect])));

/** Of plain data. What is the same in another order counts as different, which costs a look and no more. */
function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object') return false;
  return JSON.stringify(one) === JSON.stringify(other);
}
