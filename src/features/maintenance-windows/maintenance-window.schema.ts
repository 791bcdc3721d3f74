import { z } from 'zod';
import { DAY_MS } from '../../clock.ts';
import { instantOrDay, Id, nfcText, noneBefore, Timestamp, TimeZone } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { DeviceTarget } from '../device-targets/index.ts';
import { Weekday } from '../partners/index.ts';
import { parseLocal } from '../../platform/local-time.ts';
import { scheduleFaults } from './occurrences.ts';

const YEAR = String.raw`(19[7-9]\d|[2-9]\d{3})`;
const DATE = String.raw`${YEAR}-\d\d-\d\d`;

const LocalTime = z
  .string()
  .regex(
    new RegExp(String.raw`^${DATE}T\d\d:\d\d$`),
    'must be a date and time from the year 1970 on, such as 2026-12-24T22:00',
  )
  .refine((value) => parseLocal(value) !== undefined, 'must be a day and a time that exist')
  .describe(
    'On the clocks of the time zone. A time that they skip stands for the first moment after it; of a time that they show twice the first one counts.',
  );

const LocalDate = z
  .string()
  .regex(new RegExp(`^${DATE}$`), 'must be a date from the year 1970 on, such as 2027-03-31')
  .refine((value) => parseLocal(value) !== undefined, 'must be a day that exists');

const Repeat = z
  .strictObject({
    frequency: z.enum(['daily', 'weekly', 'monthly']),
    days: z
      .array(Weekday)
      .min(1)
      .max(Weekday.options.length)
      .overwrite((days) => Weekday.options.filter((day) => days.includes(day)))
      .optional()
      .describe('With `weekly`: the days on which it begins.'),
    dayOfMonth: z
      .union([z.number().int().min(1).max(28), z.literal('last')])
      .optional()
      .describe('With `monthly`: this or `nthWeekday`.'),
    nthWeekday: z
      .strictObject({
        nth: z.union([z.number().int().min(1).max(4), z.literal('last')]),
        day: Weekday,
      })
      .optional()
      .describe('With `monthly`: such as the second Tuesday.'),
    until: LocalDate.optional().describe('The last date on which it may begin.'),
  })
  .meta({ id: 'MaintenanceRepeat' });

const DURATION_MAX = 10_080;

const schedule = {
  timezone: TimeZone,
  start: LocalTime,
  durationMinutes: z
    .number()
    .int()
    .min(1)
    .max(DURATION_MAX)
    .describe('Real minutes, also when clocks are set in between.'),
};

const Suppress = z
  .strictObject({
    alerts: z
      .boolean()
      .describe(
        'No alerts of rules are raised, for offline devices, figures, events, software and services. Devices have 10 minutes after the end to come back.',
      ),
    upgrades: z.boolean().describe('Agents are offered no upgrades.'),
  })
  .meta({ id: 'MaintenanceSuppression' });

const Occurrence = z.object({ startsAt: Timestamp, endsAt: Timestamp }).meta({ id: 'MaintenanceOccurrence' });

export const MaintenanceWindow = z
  .object({
    id: z.uuid(),
    orgId: z.uuid().nullable().describe('Null: it covers all organizations of the partner.'),
    partnerId: z.uuid(),
    name: z.string(),
    target: DeviceTarget,
    ...schedule,
    repeat: Repeat.nullable().describe('Null: it happens once.'),
    suppress: Suppress,
    status: z
      .enum(['in_progress', 'scheduled', 'over'])
      .describe('`over`: it does not happen again. Such windows are removed after 365 days.'),
    current: Occurrence.nullable().describe('The occurrence that is in progress.'),
    next: Occurrence.nullable().describe('The next one that has not begun.'),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'MaintenanceWindow' });
export type MaintenanceWindow = z.input<typeof MaintenanceWindow>;

const fields = {
  name: nfcText(100).describe('Shown with the devices, also to people of the organizations.'),
  target: DeviceTarget,
  ...schedule,
  repeat: Repeat.nullable().optional().describe('Without it, the window happens once.'),
  suppress: Suppress.optional().describe('Default: both.'),
};

/** Adds the faults of fields that do not go together. */
function checked(
  { repeat = null, ...rest }: z.infer<typeof SchedulePreview> | z.infer<typeof NewFields>,
  context: z.core.$RefinementCtx,
): void {
  for (const [path, message] of scheduleFaults({ ...rest, repeat })) {
    context.addIssue({ code: 'custom', path, message });
  }
}

const NewFields = z.strictObject({
  ...fields,
  orgId: Id.optional().describe('Leave it out in partner scope for the devices of all organizations.'),
});
export const NewMaintenanceWindow = NewFields.superRefine(checked);
export type NewMaintenanceWindow = z.infer<typeof NewMaintenanceWindow>;

export const MaintenanceWindowPatch = z.strictObject(fields).partial();
export type MaintenanceWindowPatch = z.infer<typeof MaintenanceWindowPatch>;

export const MaintenanceWindowQuery = PageQuery.extend({
  orgId: Id.optional().describe('Only windows of this organization and of its partner.'),
});
export type MaintenanceWindowQuery = z.infer<typeof MaintenanceWindowQuery>;

const SchedulePreview = z.strictObject({ ...schedule, repeat: fields.repeat });
export const PreviewRequest = SchedulePreview.superRefine(checked);
export type PreviewRequest = z.infer<typeof PreviewRequest>;

export const OccurrencePreview = z.object({
  data: z.array(Occurrence).describe('At most five: those in progress or ahead.'),
});

const SPAN_MAX_DAYS = 62;

export const CalendarQuery = z
  .strictObject({
    orgId: MaintenanceWindowQuery.shape.orgId,
    from: instantOrDay('begin'),
    to: instantOrDay('end').describe(`At most ${SPAN_MAX_DAYS} days after \`from\`.`),
  })
  .superRefine(noneBefore('from', 'to'))
  .refine(({ from, to }) => to.getTime() - from.getTime() <= SPAN_MAX_DAYS * DAY_MS, {
    path: ['to'],
    message: `must lie at most ${SPAN_MAX_DAYS} days after from`,
  });
export type CalendarQuery = z.infer<typeof CalendarQuery>;

export const Calendar = z.object({
  data: z
    .array(
      Occurrence.extend({
        windowId: z.uuid(),
        orgId: z.uuid().nullable(),
        name: z.string(),
        suppress: Suppress,
      }),
    )
    .describe('By their beginning.'),
  complete: z
    .boolean()
    .describe('False if there are more than 1,000 occurrences, or more than 1,000 windows.'),
});
export type Calendar = z.input<typeof Calendar>;
