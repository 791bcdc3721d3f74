import { z } from 'zod';
import { Metrics, type ErrorAck } from './agent-messages.ts';
import { LOG_PAGE_MAX, LogConditions, LogEntry, LogNameOnly } from './event-logs.ts';
import { type JobOutput, JobsSubscribe, type JobsSnapshot, type JobUpdate } from './jobs.ts';
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

/** In lower case, as the database answers ids, so that it can be compared with those. */
const id = z.uuid().toLowerCase().optional();

export const DevicesSubscribe = z
  .strictObject({
    orgId: id,
    siteId: id,
    filterId: id.describe('A saved filter: devices enter and leave as they come to match it or not.'),
    // Schemas go into themselves with what they check, and this may be deeper than that goes.
    conditions: z
      .unknown()
      .optional()
      .describe('The same with conditions as filters have them: { operator, conditions }.'),
  })
  .refine(({ filterId, conditions }) => filterId === undefined || conditions === undefined, {
    path: ['conditions'],
    message: 'must be left out with filterId',
  });
export type DevicesSubscribe = z.infer<typeof DevicesSubscribe>;

export const DevicesSnapshot = z.object({
  ok: z.literal(true),
  subscriptionId: z.string(),
  seq: z.number().int(),
  devices: z.array(DeviceSummary),
  counts: DeviceCounts.describe('Of the devices that the client has been sent so far.'),
  complete: z
    .boolean()
    .describe(
      'False where there are more devices than one answer brings: the rest follows as `entered` in frames, the last of which says `complete`.',
    ),
});
export type DevicesSnapshot = z.infer<typeof DevicesSnapshot>;

/** A subscription that cannot go on, such as one whose filter was deleted. */
export const DevicesEnded = z.object({ subscriptionId: z.string(), code: z.string(), message: z.string() });
export type DevicesEnded = z.infer<typeof DevicesEnded>;

export const DevicesDelta = z.object({
  subscriptionId: z.string(),
  seq: z.number().int().describe('One more than the last; a gap means subscribe again.'),
  changed: z.array(DeviceSummary.partial().required({ id: true })),
  entered: z.array(DeviceSummary),
  left: z.array(z.uuid()),
  counts: DeviceCounts,
  complete: z
    .literal(true)
    .optional()
    .describe('After a subscription that was not answered in full: the client now has all devices.'),
});
export type DevicesDelta = z.infer<typeof DevicesDelta>;

/** Devices that one live query may ask. */
export const QUERY_MAX_DEVICES = 500;

/** A live question to many devices at once: those that are named, or those that a saved filter finds. */
export const EventLogsQuery = z
  .strictObject({
    deviceIds: z.array(z.uuid().toLowerCase()).min(1).max(QUERY_MAX_DEVICES).optional(),
    filterId: z.uuid().toLowerCase().optional(),
    ...LogNameOnly.shape,
    ...LogConditions.shape,
    limit: z.number().int().min(1).max(LOG_PAGE_MAX).default(50).describe('Entries of each device.'),
  })
  .refine(({ deviceIds, filterId }) => (deviceIds === undefined) !== (filterId === undefined), {
    error: 'must stand in place of deviceIds, where those are left out',
    path: ['filterId'],
  });
export type EventLogsQuery = z.input<typeof EventLogsQuery>;

/** New entries of one device as they are written, until cancelled, an hour at most. */
export const EventLogsTail = z.strictObject({
  deviceId: z.uuid().toLowerCase(),
  ...LogNameOnly.shape,
  ...LogConditions.shape,
});
export type EventLogsTail = z.input<typeof EventLogsTail>;

export const QueryStarted = z.object({ ok: z.literal(true), queryId: z.string() });
export type QueryStarted = z.infer<typeof QueryStarted>;

export const EventLogsRows = z.object({
  queryId: z.string(),
  deviceId: z.uuid(),
  rows: z.array(LogEntry),
});
export type EventLogsRows = z.infer<typeof EventLogsRows>;

export const QueryOutcome = z.object({
  deviceId: z.uuid(),
  outcome: z.enum(['answered', 'no_match', 'offline', 'timed_out', 'error', 'cancelled']),
  rows: z.number().int().describe('Entries that were sent, also where the outcome is not an answer.'),
  message: z.string().optional(),
});
export type QueryOutcome = z.infer<typeof QueryOutcome>;

export const EventLogsEnd = z.object({ queryId: z.string(), outcomes: z.array(QueryOutcome) });
export type EventLogsEnd = z.infer<typeof EventLogsEnd>;

const QueryId = z.object({ queryId: z.string().max(64) });

export const DASHBOARD_EVENTS = {
  'devices:subscribe': DevicesSubscribe,
  'devices:unsubscribe': z.object({ subscriptionId: z.string().max(64) }),
  'eventlogs:query': EventLogsQuery,
  'eventlogs:tail': EventLogsTail,
  'eventlogs:cancel': QueryId,
  'jobs:subscribe': JobsSubscribe,
  'jobs:unsubscribe': JobsSubscribe,
} as const;

export interface DashboardToHub {
  'devices:subscribe': (message: DevicesSubscribe, ack: (answer: DevicesSnapshot | ErrorAck) => void) => void;
  'devices:unsubscribe': (
    message: { subscriptionId: string },
    ack: (answer: { ok: true } | ErrorAck) => void,
  ) => void;
  'eventlogs:query': (message: EventLogsQuery, ack: (answer: QueryStarted | ErrorAck) => void) => void;
  'eventlogs:tail': (message: EventLogsTail, ack: (answer: QueryStarted | ErrorAck) => void) => void;
  'eventlogs:cancel': (message: { queryId: string }, ack: (answer: { ok: true } | ErrorAck) => void) => void;
  'jobs:subscribe': (message: JobsSubscribe, ack: (answer: JobsSnapshot | ErrorAck) => void) => void;
  'jobs:unsubscribe': (message: JobsSubscribe, ack: (answer: { ok: true } | ErrorAck) => void) => void;
}

export interface HubToDashboard {
  'devices:delta': (delta: DevicesDelta) => void;
  'devices:ended': (end: DevicesEnded) => void;
  'eventlogs:rows': (message: EventLogsRows) => void;
  'eventlogs:end': (message: EventLogsEnd) => void;
  'job:update': (job: JobUpdate) => void;
  'job:output': (output: JobOutput) => void;
}
