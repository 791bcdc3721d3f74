import { z } from 'zod';
import { Metrics, type ErrorAck } from './agent-messages.ts';
import { OsType } from './primitives.ts';

/** Socket messages between a person's client and the hub (namespace `/dashboard`). */

export const DashboardHandshake = z.object({ token: z.string().min(1).max(4096) });

export const DeviceStatus = z.enum([
  'online',
  'offline',
  'maintenance',
  'updating',
  'pending',
  'quarantined',
  'decommissioned',
]);
export type DeviceStatus = z.infer<typeof DeviceStatus>;

export const PresenceReason = z.enum([
  'connected',
  'heartbeat_missed',
  'socket_closed',
  'node_lost',
  'updating',
  'never_seen',
]);
export type PresenceReason = z.infer<typeof PresenceReason>;

export const Presence = z
  .object({
    state: z.enum(['connected', 'disconnected']),
    since: z.string(),
    reason: PresenceReason,
  })
  .meta({ id: 'Presence' });
export type Presence = z.infer<typeof Presence>;

export const DeviceSummary = z.object({
  id: z.uuid(),
  orgId: z.uuid(),
  siteId: z.uuid(),
  hostname: z.string(),
  displayName: z.string().nullable(),
  osType: OsType,
  agentVersion: z.string(),
  status: DeviceStatus,
  presence: Presence,
  lastSeenAt: z.string().nullable(),
  metrics: Metrics.nullable(),
});
export type DeviceSummary = z.infer<typeof DeviceSummary>;

export const DeviceCounts = z.object({
  total: z.number().int(),
  byStatus: z.partialRecord(DeviceStatus, z.number().int()),
});
export type DeviceCounts = z.infer<typeof DeviceCounts>;

/** `filterId` and `conditions` (SHAPES 6) come with saved filters. */
export const DevicesSubscribe = z.strictObject({ orgId: z.uuid().optional(), siteId: z.uuid().optional() });
export type DevicesSubscribe = z.infer<typeof DevicesSubscribe>;

export const DevicesSnapshot = z.object({
  ok: z.literal(true),
  subscriptionId: z.string(),
  seq: z.number().int(),
  devices: z.array(DeviceSummary),
  counts: DeviceCounts,
});
export type DevicesSnapshot = z.infer<typeof DevicesSnapshot>;

export const DevicesDelta = z.object({
  subscriptionId: z.string(),
  seq: z.number().int().describe('One more than the last; a gap means subscribe again.'),
  changed: z.array(DeviceSummary.partial().required({ id: true })),
  entered: z.array(DeviceSummary),
  left: z.array(z.uuid()),
  counts: DeviceCounts,
});
export type DevicesDelta = z.infer<typeof DevicesDelta>;

export const DASHBOARD_EVENTS = {
  'devices:subscribe': DevicesSubscribe,
  'devices:unsubscribe': z.object({ subscriptionId: z.string() }),
} as const;

export interface DashboardToHub {
  'devices:subscribe': (message: DevicesSubscribe, ack: (answer: DevicesSnapshot | ErrorAck) => void) => void;
  'devices:unsubscribe': (
    message: { subscriptionId: string },
    ack: (answer: { ok: true } | ErrorAck) => void,
  ) => void;
}

export interface HubToDashboard {
  'devices:delta': (delta: DevicesDelta) => void;
}
