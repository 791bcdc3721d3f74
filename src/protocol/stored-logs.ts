import { z } from 'zod';
import { atMost, ReportedInstant, ReportedJson, reportedText } from './primitives.ts';

/** Logs that an agent sends over HTTP to be stored: `POST /agents/:id/logs` and `PUT /agents/:id/eventlogs`. */

/** The most diagnostic lines in one request. */
export const LOG_BATCH_MAX = 500;
/** The largest uncompressed batch, so that a small compressed body cannot expand without limit. */
export const LOG_BATCH_MAX_BYTES = 2_000_000;
/** The most characters of a stored message. The message of an event may be longer; the server cuts it. */
export const LOG_MESSAGE_MAX = 32_768;

export const DiagnosticLevel = z.enum(['debug', 'info', 'warn', 'error']);
export type DiagnosticLevel = z.infer<typeof DiagnosticLevel>;

/** A line of the agent's own log. */
export const DiagnosticLine = z.object({
  timestamp: ReportedInstant,
  level: DiagnosticLevel,
  component: reportedText(100),
  message: reportedText(LOG_MESSAGE_MAX, 0),
  fields: ReportedJson.optional(),
  agentVersion: reportedText(50).optional().describe('Defaults to the present version of the device.'),
});
export type DiagnosticLine = z.infer<typeof DiagnosticLine>;

export const DiagnosticBatch = z.object({ logs: atMost(LOG_BATCH_MAX, DiagnosticLine) });
export type DiagnosticBatch = z.infer<typeof DiagnosticBatch>;
export const DiagnosticReceipt = z.object({ received: z.number().int() });

export const EventLevel = z.enum(['info', 'warning', 'error', 'critical']);
export type EventLevel = z.infer<typeof EventLevel>;
export const EventCategory = z.enum(['security', 'hardware', 'application', 'system']);
export type EventCategory = z.infer<typeof EventCategory>;

/** A text of an event, which may have any length: the server keeps its first `kept` characters. */
const cutText = (kept: number, min = 1) =>
  reportedText(LOG_BATCH_MAX_BYTES, min).describe(`Cut to ${kept} characters.`);

export const EVENT_SOURCE_MAX = 255;
export const EVENT_ID_MAX = 100;

/** An entry of the machine's logs. */
export const DeviceEvent = z.object({
  timestamp: ReportedInstant,
  level: EventLevel,
  category: EventCategory,
  source: cutText(EVENT_SOURCE_MAX),
  eventId: cutText(EVENT_ID_MAX)
    .optional()
    .describe('Identifies the event within its source. A second event with the same id is ignored.'),
  message: cutText(LOG_MESSAGE_MAX, 0),
  details: ReportedJson.optional(),
});
export type DeviceEvent = z.infer<typeof DeviceEvent>;

/** More events than fit into a body. */
const EVENT_BATCH_MAX = 25_000;
const { $schema: _dialect, ...EVENT_AS_JSON } = z.toJSONSchema(DeviceEvent, {
  io: 'input',
  unrepresentable: 'any',
});

/** Each event is parsed separately with `DeviceEvent`, so that an invalid one does not affect the others. */
export const EventBatch = z.object({
  events: atMost(EVENT_BATCH_MAX, z.unknown()).meta({ type: 'array', items: EVENT_AS_JSON }),
});
export type EventBatch = z.infer<typeof EventBatch>;
export const EventReceipt = z.object({
  success: z.literal(true),
  count: z.number().int().describe('How many of the events were new.'),
  refused: z
    .array(z.object({ path: z.string(), message: z.string() }))
    .optional()
    .describe('The faults of the events that were left out: the first hundred.'),
});
export type EventReceipt = z.infer<typeof EventReceipt>;
