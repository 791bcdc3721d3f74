import { z } from 'zod';
import { Id, Timestamp } from '../../platform/http/fields.ts';
import { MONTH } from './month.ts';
import { PART_NAMES, PARTS } from './parts.ts';

export const MonthReportQuery = z.object({
  orgId: Id,
  month: z
    .string()
    .regex(MONTH, 'must be a month such as 2026-10, from 1970-01 on')
    .describe('Such as 2026-10. It begins and ends on the clocks of the organization.'),
});
export type MonthReportQuery = z.infer<typeof MonthReportQuery>;

const PartName = z.enum(PART_NAMES);

export const MonthReport = z
  .object({
    organization: z.object({ id: z.uuid(), name: z.string() }),
    provider: z
      .object({ name: z.string(), logoUrl: z.string().nullable(), accentColor: z.string().nullable() })
      .describe('The partner of the organization, with the branding of its login page.'),
    month: z.string(),
    timezone: z.string().describe('The setting `timezone` of the organization, or UTC.'),
    from: Timestamp,
    to: Timestamp.describe('The end of the month.'),
    madeAt: Timestamp,
    isRunning: z.boolean().describe('The month has not ended: the figures are of the time until `madeAt`.'),
    hidden: z.array(PartName).describe('Parts that the caller may not read; they are null.'),
    incomplete: z
      .array(z.object({ part: PartName, before: Timestamp }))
      .describe('Parts whose rows from before this time may have been removed because of their age.'),
    devices: PARTS.devices.shape,
    availability: PARTS.availability.shape,
    alerts: PARTS.alerts.shape.nullable(),
    backups: PARTS.backups.shape.nullable(),
    cloudBackups: PARTS.cloudBackups.shape.nullable(),
    software: PARTS.software.shape,
    upgrades: PARTS.upgrades.shape,
    commands: PARTS.commands.shape,
    people: PARTS.people.shape.nullable(),
  })
  .meta({ id: 'MonthReport' });
export type MonthReport = z.input<typeof MonthReport>;
