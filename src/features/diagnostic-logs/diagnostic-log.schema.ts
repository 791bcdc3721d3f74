import { z } from 'zod';
import { instantOrDay, listOf, noneBefore, text, Timestamp } from '../../platform/http/fields.ts';
import { pageQuery } from '../../platform/http/pagination.ts';
import { DiagnosticLevel } from '../../protocol/index.ts';

export const DiagnosticLog = z
  .object({
    id: z.uuid(),
    deviceId: z.uuid(),
    orgId: z.uuid(),
    timestamp: Timestamp.describe('When the agent wrote it, by its own clock.'),
    level: DiagnosticLevel,
    component: z.string(),
    message: z.string(),
    fields: z.record(z.string(), z.unknown()).nullable(),
    agentVersion: z.string().nullable(),
    createdAt: Timestamp,
  })
  .meta({ id: 'DiagnosticLog' });
export type DiagnosticLog = z.infer<typeof DiagnosticLog>;

export const DiagnosticLogQuery = pageQuery({ maxLimit: 1000 })
  .extend({
    level: listOf(DiagnosticLevel),
    component: text(100).optional().describe('Exact.'),
    since: instantOrDay('begin').optional().describe('Lines at or after: an instant, or a day (UTC).'),
    until: instantOrDay('end').optional().describe('Lines at or before: an instant, or a day (UTC).'),
    search: text(500).optional().describe('Part of the message, in any case.'),
  })
  .superRefine(noneBefore('since', 'until'));
export type DiagnosticLogQuery = z.infer<typeof DiagnosticLogQuery>;

export const DiagnosticLogPage = z.object({
  logs: z.array(DiagnosticLog),
  total: z.number().int(),
  limit: z.number().int(),
  offset: z.number().int(),
});
export type DiagnosticLogPage = z.infer<typeof DiagnosticLogPage>;
