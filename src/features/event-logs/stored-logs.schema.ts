import { z } from 'zod';
import { instantOrDay, listOf, noneBefore, text, Timestamp } from '../../platform/http/fields.ts';
import { pageOf, pageQuery } from '../../platform/http/pagination.ts';
import { EventCategory, EventLevel } from '../../protocol/index.ts';

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

export const StoredEventQuery = pageQuery({ maxLimit: 500 })
  .extend({
    category: listOf(EventCategory),
    level: listOf(EventLevel),
    source: text(255).optional().describe('Exact.'),
    startDate: instantOrDay('begin').optional().describe('Events at or after: an instant, or a day (UTC).'),
    endDate: instantOrDay('end').optional().describe('Events at or before: an instant, or a day (UTC).'),
  })
  .superRefine(noneBefore('startDate', 'endDate'));
export type StoredEventQuery = z.infer<typeof StoredEventQuery>;

export const StoredEventPage = pageOf(StoredEvent);
