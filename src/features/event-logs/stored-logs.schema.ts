import { z } from 'zod';
import { listOf, noneBefore, text, Timestamp } from '../../platform/http/fields.ts';
import { pageOf, PageQuery } from '../../platform/http/pagination.ts';
import { EventCategory, EventLevel, Instant } from '../../protocol/index.ts';

export const StoredEvent = z
  .object({
    id: z.uuid(),
    deviceId: z.uuid(),
    orgId: z.uuid(),
    timestamp: Timestamp.describe('When it happened, by the device’s own clock.'),
    level: EventLevel,
    category: EventCategory,
    source: z.string(),
    eventId: z.string().nullable(),
    message: z.string(),
    details: z.record(z.string(), z.unknown()).nullable(),
    createdAt: Timestamp,
  })
  .meta({ id: 'StoredEvent' });
export type StoredEvent = z.infer<typeof StoredEvent>;

/** An instant, or a day, in UTC, of which `edge` is meant. */
const instantOrDay = (edge: 'T00:00:00Z' | 'T23:59:59.999Z') =>
  z
    .string()
    .transform((value) => (z.iso.date().safeParse(value).success ? `${value}${edge}` : value))
    .pipe(Instant)
    .optional();

export const StoredEventQuery = PageQuery.extend({
  category: listOf(EventCategory),
  level: listOf(EventLevel),
  source: text(255).optional().describe('Exact.'),
  startDate: instantOrDay('T00:00:00Z').describe('Events at or after: an instant, or a day (UTC).'),
  endDate: instantOrDay('T23:59:59.999Z').describe('Events at or before: an instant, or a day (UTC).'),
}).superRefine(noneBefore('startDate', 'endDate'));
export type StoredEventQuery = z.infer<typeof StoredEventQuery>;

export const StoredEventPage = pageOf(StoredEvent);
