import { z } from 'zod';
import { Metrics, type ErrorAck } from './agent-messages.ts';
import { LOG_PAGE_MAX, LogConditions, LogEntry, LogNameOnly, LogQuerySummary } from './event-logs.ts';
import { type JobOutput, JobsSubscribe, type JobsSnapshot, type JobUpdate } from './jobs.ts';
import { OsType } from './primitives.ts';
import {
  TerminalClose,
  type TerminalClosed,
  TerminalInput,
  TerminalOpen,
  type TerminalOpened,
  type TerminalOutput,
  TerminalResize,
} from './terminals.ts';

/** Socket messages between the client of a user and the hub (namespace `/dashboard`). */

export const DashboardHandshake = z.object({
  token: z.string().min(1).max(4096).describe('An access token from `POST /auth/login`.'),
});

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
    since: z.string().describe('When this state began.'),
    reason: PresenceReason,
  })
  .meta({ id: 'Presence' });
export type Presence = z.infer<typeof Presence>;

export const PlannedMaintenance = z.object({
  windowId: z.uuid(),
  name: z.string(),
  until: z.iso.datetime(),
});
export type PlannedMaintenance = z.infer<typeof PlannedMaintenance>;

export const DeviceSummary = z.object({
  id: z.uuid(),
  orgId: z.uuid(),
  siteId: z.uuid(),
  hostname: z.string(),
  displayName: z.string().nullable().describe('The name that a user has given the device.'),
  osType: OsType,
  agentVersion: z.string(),
  status: DeviceStatus,
  maintenance: PlannedMaintenance.nullable().describe(
    'The maintenance window that is in progress; of several, the one that ends last.',
  ),
  presence: Presence,
  lastSeenAt: z.string().nullable(),
  metrics: Metrics.nullable().describe('The figures of the last heartbeat.'),
});
export type DeviceSummary = z.infer<typeof DeviceSummary>;

export const DeviceCounts = z.object({
  total: z.number().int(),
  byStatus: z.partialRecord(DeviceStatus, z.number().int()),
});
export type DeviceCounts = z.infer<typeof DeviceCounts>;

/** Converted to lower case, in which the database returns ids, so that they can be compared. */
const id = z.uuid().toLowerCase().optional();

export const DevicesSubscribe = z
  .strictObject({
    orgId: id.describe('Only devices of this organization.'),
    siteId: id.describe('Only devices of this site.'),
    filterId: id.describe(
      'Only devices that match this saved filter. Devices enter and leave as their match changes.',
    ),
    // The filter's own parser checks the conditions, because they may be nested deeper than a schema can follow.
    conditions: z
      .unknown()
      .optional()
      .describe(
        'The same for unsaved conditions, in the form that filters have: `{ operator, conditions }`.',
      ),
  })
  .refine(({ filterId, conditions }) => filterId === undefined || conditions === undefined, {
    path: ['conditions'],
    message: 'must be left out with filterId',
  });
export type DevicesSubscribe = z.infer<typeof DevicesSubscribe>;

export const DevicesSnapshot = z.object({
  ok: z.literal(true),
  subscriptionId: z.string(),
  seq: z.number().int().describe('The first delta has the next number.'),
  devices: z.array(DeviceSummary),
  counts: DeviceCounts.describe('Counts the devices that the client has been sent so far.'),
  complete: z
    .boolean()
    .describe(
      'False if there are more devices than fit into one message. The others follow as `entered` in deltas; the last of these has `complete`.',
    ),
});
export type DevicesSnapshot = z.infer<typeof DevicesSnapshot>;

/** The end of a subscription that cannot continue, such as one whose filter was deleted. */
export const DevicesEnded = z.object({
  subscriptionId: z.string(),
  code: z.string().describe('For programs.'),
  message: z.string().describe('For people.'),
});
export type DevicesEnded = z.infer<typeof DevicesEnded>;

export const DevicesDelta = z.object({
  subscriptionId: z.string(),
  seq: z.number().int().describe('One more than the last one. After a gap, subscribe again.'),
  changed: z
    .array(DeviceSummary.partial().required({ id: true }))
    .describe('The changed fields of devices that the client already has.'),
  entered: z.array(DeviceSummary).describe('Devices that now belong to the subscription.'),
  left: z.array(z.uuid()).describe('The ids of devices that no longer belong to it.'),
  counts: DeviceCounts.describe('Counts all devices of the subscription.'),
  complete: z
    .literal(true)
    .optional()
    .describe('Present after a snapshot that was incomplete, when the client has all devices.'),
});
export type DevicesDelta = z.infer<typeof DevicesDelta>;

/** The most devices that one live query may ask. */
export const QUERY_MAX_DEVICES = 500;

/** A live query to many devices at once: the listed ones, or those that match a saved filter. */
export const EventLogsQuery = z
  .strictObject({
    deviceIds: z
      .array(z.uuid().toLowerCase())
      .min(1)
      .max(QUERY_MAX_DEVICES)
      .optional()
      .describe('The devices to ask. Give either these or `filterId`.'),
    filterId: z.uuid().toLowerCase().optional().describe('Asks the devices that match this saved filter.'),
    ...LogNameOnly.shape,
    ...LogConditions.shape,
    limit: z
      .number()
      .int()
      .min(1)
      .max(LOG_PAGE_MAX)
      .default(50)
      .describe('The most entries from each device.'),
  })
  .refine(({ deviceIds, filterId }) => (deviceIds === undefined) !== (filterId === undefined), {
    error: 'must be given where deviceIds are left out, and only there',
    path: ['filterId'],
  });
export type EventLogsQuery = z.input<typeof EventLogsQuery>;

/** Follows the new entries of one log until it is cancelled, for an hour at most. */
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
  rows: z.number().int().describe('How many entries were sent, even if the query ended early.'),
  message: z.string().optional().describe('The reason, for people.'),
  // As the device reports them at the end of its query.
  ...LogQuerySummary.partial().shape,
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
  'terminal:open': TerminalOpen,
  'terminal:data': TerminalInput,
  'terminal:resize': TerminalResize,
  'terminal:close': TerminalClose,
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
  'terminal:open': (message: TerminalOpen, ack: (answer: TerminalOpened | ErrorAck) => void) => void;
  'terminal:data': (message: TerminalInput, ack: (answer: { ok: true } | ErrorAck) => void) => void;
  'terminal:resize': (message: TerminalResize, ack: (answer: { ok: true } | ErrorAck) => void) => void;
  'terminal:close': (message: TerminalClose, ack: (answer: { ok: true } | ErrorAck) => void) => void;
}

export const HubState = z.object({
  isWhole: z
    .boolean()
    .describe(
      'False while this server does not reach the others: it then shows the last known state of devices that are connected to them.',
    ),
});
export type HubState = z.infer<typeof HubState>;

export interface HubToDashboard {
  'hub:state': (state: HubState) => void;
  'devices:delta': (delta: DevicesDelta) => void;
  'devices:ended': (end: DevicesEnded) => void;
  'eventlogs:rows': (message: EventLogsRows) => void;
  'eventlogs:end': (message: EventLogsEnd) => void;
  'job:update': (job: JobUpdate) => void;
  'job:output': (output: JobOutput) => void;
  'terminal:data': (output: TerminalOutput) => void;
  'terminal:close': (closed: TerminalClosed) => void;
}
