import type { DeviceSummary, Metrics } from '../../protocol/index.ts';
import { DEVICE_FIELDS, type DeviceField, type FleetDevice } from '../ports.ts';

/** Stands for software that was not loaded. Compared by identity, because a device may have none. */
export const SOFTWARE_NOT_LOADED: readonly string[] = [];

export const summaryOf = (device: FleetDevice): DeviceSummary => ({
  id: device.id,
  orgId: device.orgId,
  siteId: device.siteId,
  hostname: device.hostname,
  displayName: device.displayName,
  osType: device.osType,
  agentVersion: device.agentVersion,
  status: device.status,
  maintenance: device.maintenance,
  presence: device.presence,
  lastSeenAt: device.lastSeenAt === null ? null : new Date(device.lastSeenAt).toISOString(),
  metrics: device.metrics,
});

/** Copies the fields that change live from a summary. */
export function applyLiveState(device: FleetDevice, live: DeviceSummary): void {
  device.agentVersion = live.agentVersion;
  device.status = live.status;
  device.presence = live.presence;
  device.lastSeenAt = live.lastSeenAt === null ? null : Date.parse(live.lastSeenAt);
  device.metrics = roundedAsStored(live.metrics);
}

/** Rounds to hundredths, as the database does, so that conditions give the same result here and there. */
export function roundedAsStored(metrics: Metrics | null): Metrics | null {
  if (metrics === null) return null;
  return {
    cpuPercent: hundredths(metrics.cpuPercent),
    ramPercent: hundredths(metrics.ramPercent),
    diskPercent: hundredths(metrics.diskPercent),
  };
}

const hundredths = (value: number) => Math.round(value * 100) / 100;

/** A set of device fields as bits, so that one operation shows whether conditions read a field that changed. */
export type FieldMask = number;

const BITS = new Map<DeviceField, FieldMask>(DEVICE_FIELDS.map((field, index) => [field, 1 << index]));
export const ALL_FIELDS: FieldMask = fieldMask(DEVICE_FIELDS);
export const NO_FIELDS: FieldMask = 0;

export function fieldMask(names: Iterable<DeviceField>): FieldMask {
  let fields: FieldMask = 0;
  for (const name of names) fields |= BITS.get(name) ?? 0;
  return fields;
}

/** The fields of a device record that its summary shows. */
export const SUMMARY_FIELDS: FieldMask = fieldMask([
  'orgId',
  'siteId',
  'hostname',
  'displayName',
  'osType',
  'agentVersion',
  'status',
  'maintenance',
]);

/** The fields that decide who may see the device. */
export const SCOPE_FIELDS: FieldMask = fieldMask(['orgId', 'siteId']);

export const changedFields = (before: FleetDevice, after: FleetDevice): FieldMask =>
  fieldMask(DEVICE_FIELDS.filter((field) => !isSame(before[field], after[field])));

/** Compares plain data. A different order of keys counts as a difference, which only costs an extra evaluation. */
function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object') return false;
  return JSON.stringify(one) === JSON.stringify(other);
}
