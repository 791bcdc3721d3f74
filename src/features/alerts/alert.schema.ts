import { z } from 'zod';
import {
  Id,
  instantOrDay,
  JsonColumn,
  listOf,
  nfcText,
  noneBefore,
  text,
  Timestamp,
} from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

export const AlertSeverity = z.enum(['critical', 'high', 'medium', 'low', 'info']);
export type AlertSeverity = z.infer<typeof AlertSeverity>;

export const AlertStatus = z.enum(['active', 'acknowledged', 'resolved']);
export type AlertStatus = z.infer<typeof AlertStatus>;

export const AlertKind = text(64).regex(
  /^[a-z][a-z0-9_]*$/,
  'must be a kind of alerts, such as device_offline',
);

/**
 * The kinds of alerts of rules that watch for causes of their own: each rule raises a kind of its own, which ends in twelve
 * digits of its id.
 */
export const RULE_FAMILIES = ['log_event', 'software_change', 'service_state'] as const;
export type RuleFamily = (typeof RULE_FAMILIES)[number];
/** A regular expression for JavaScript and Postgres. */
export const KIND_OF_ONE_RULE = `^(${RULE_FAMILIES.join('|')})_[0-9a-f]{12}$`;

const OF_ONE_RULE = new RegExp(KIND_OF_ONE_RULE);
/** The kind without what tells rules of a family apart. */
export const kindFamily = (kind: string): string => OF_ONE_RULE.exec(kind)?.[1] ?? kind;

export const Alert = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid().nullable().describe('Null if the alert concerns the whole organization.'),
    kind: z.string(),
    ruleId: z
      .uuid()
      .nullable()
      .describe('The rule that decided about it; null if there is none, or it was deleted.'),
    severity: AlertSeverity,
    status: AlertStatus,
    title: z.string(),
    message: z.string(),
    details: JsonColumn,
    count: z.number().int().describe('How often the cause has occurred; each occurrence updates lastAt.'),
    raisedAt: Timestamp,
    lastAt: Timestamp,
    acknowledgedAt: Timestamp.nullable(),
    acknowledgedBy: z.uuid().nullable(),
    resolvedAt: Timestamp.nullable(),
    resolvedBy: z.uuid().nullable(),
    note: z.string().nullable().describe('The note from acknowledging or resolving the alert.'),
    resolution: z
      .string()
      .nullable()
      .describe('Why the alert resolved automatically; null if a user resolved it.'),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'Alert' });

export const AlertQuery = PageQuery.extend({
  status: listOf(AlertStatus),
  severity: listOf(AlertSeverity),
  kind: text(64).optional().describe('Exact, such as device_offline.'),
  deviceId: z.uuid().optional(),
  ruleId: z.uuid().optional().describe('Only those that this alert rule decided about.'),
  orgId: z.uuid().optional(),
  from: instantOrDay('begin').optional().describe('Raised at or after: an instant, or a day (UTC).'),
  to: instantOrDay('end').optional().describe('Raised at or before: an instant, or a day (UTC).'),
  search: nfcText(100)
    .transform((part) => part.trim())
    .optional()
    .describe('Part of the title or message, case-insensitive.'),
}).superRefine(noneBefore('from', 'to'));
export type AlertQuery = z.infer<typeof AlertQuery>;

export const SummaryQuery = z.object({ orgId: z.uuid().optional() });
export type SummaryQuery = z.infer<typeof SummaryQuery>;

const count = z.number().int();

export const AlertSummary = z
  .object({
    open: count.describe('Alerts that are not resolved.'),
    byStatus: z.object({ active: count, acknowledged: count, resolved: count }),
    bySeverity: z
      .object({ critical: count, high: count, medium: count, low: count, info: count })
      .describe('Alerts that are not resolved, by severity.'),
  })
  .meta({ id: 'AlertSummary' });
export type AlertSummary = z.infer<typeof AlertSummary>;

const IDS_SHOWN = 100;
const DEVICES_SHOWN = 3;

export const CauseQuery = SummaryQuery.extend({
  limit: PageQuery.shape.limit,
});
export type CauseQuery = z.infer<typeof CauseQuery>;

/** How much of a cause is listed by name. */
export const CAUSE_SHOWS = { alertIds: IDS_SHOWN, devices: DEVICES_SHOWN } as const;

export const AlertCause = z
  .object({
    orgId: z.uuid(),
    siteId: z
      .uuid()
      .nullable()
      .describe('The site of all of its devices; null if they are of several sites, or there are none.'),
    kind: z.string(),
    severity: AlertSeverity.describe('The worst of its alerts.'),
    count: count.describe('How many alerts it has.'),
    devices: z
      .array(z.object({ id: z.uuid(), name: z.string() }))
      .describe(`The first of the devices that the alerts are about, at most ${DEVICES_SHOWN}.`),
    deviceCount: count,
    isTogether: z
      .boolean()
      .describe(
        'Whether the alerts were raised together, within minutes at one site, which suggests one cause.',
      ),
    title: z.string().nullable().describe('The title that all of its alerts have; null if they differ.'),
    firstAt: Timestamp,
    lastAt: Timestamp.describe('When the last of them was raised.'),
    alertIds: z.array(z.uuid()).describe(`The oldest of its alerts, at most ${IDS_SHOWN}.`),
  })
  .meta({ id: 'AlertCause' });
export type AlertCause = z.input<typeof AlertCause>;

const note = text(2000).optional();

export const AlertNote = z.strictObject({ note });
export type AlertNote = z.infer<typeof AlertNote>;

const MAX_AT_ONCE = 100;

export const AlertAction = z.enum(['acknowledge', 'resolve']);
export type AlertAction = z.infer<typeof AlertAction>;

export const AlertBulk = z.strictObject({
  alertIds: z
    .array(Id)
    .min(1)
    .max(MAX_AT_ONCE)
    .transform((ids) => [...new Set(ids)]),
  action: AlertAction,
  note,
});
export type AlertBulk = z.infer<typeof AlertBulk>;

const AlertOutcome = z.object({
  alertId: z.uuid(),
  ok: z.boolean(),
  status: AlertStatus.nullable().describe('The current status; null if the alert does not exist.'),
  error: z.object({ code: z.string(), message: z.string() }).optional(),
});
export type AlertOutcome = z.infer<typeof AlertOutcome>;

export const AlertBulkAnswer = z.object({ changed: count, outcomes: z.array(AlertOutcome) });
