import { z } from 'zod';
import { Id, nfcText, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { EventCategory, EventLevel } from '../../protocol/index.ts';
import { AlertKind, AlertSeverity } from '../alerts/index.ts';
import { DeviceTarget } from '../device-targets/index.ts';
import { RULE_METRIC_NAMES, thresholdFault } from './rule-metrics.ts';

const DAY_MINUTES = 1440;
const MONTH_MINUTES = 43_200;

const minutes = (least: number, most: number) => z.number().int().min(least).max(most);

const OfflineCondition = z.strictObject({
  kind: z.literal('offline'),
  forMinutes: minutes(1, MONTH_MINUTES).describe('How long the device has not been connected.'),
});

export const RuleMetric = z.enum(RULE_METRIC_NAMES);
export type RuleMetric = z.infer<typeof RuleMetric>;

export const MetricOperator = z.enum(['greaterThan', 'greaterThanOrEquals', 'lessThan', 'lessThanOrEquals']);
export type MetricOperator = z.infer<typeof MetricOperator>;

const figure = z.number().min(0).max(Number.MAX_SAFE_INTEGER);

const MetricCondition = z
  .strictObject({
    kind: z.literal('metric'),
    metric: RuleMetric.describe('Those of volumes are evaluated for each volume of the device.'),
    operator: MetricOperator,
    threshold: figure.describe('In percent, bytes, bytes a second or seconds, as the metric is.'),
    clearThreshold: figure
      .optional()
      .describe(
        'The condition is met until the figure is beyond this one on the other side, so that figures near the threshold raise no alert after alert. Without it, the threshold itself counts.',
      ),
    forMinutes: minutes(0, DAY_MINUTES).describe(
      'How long the figure has been beyond the threshold without a break. Devices report figures each minute. 0: a single figure is enough.',
    ),
  })
  .superRefine((condition, context) => {
    const fault = thresholdFault(condition);
    if (fault === undefined) return;
    context.addIssue({ code: 'custom', path: [fault.field], message: fault.message });
  });

const EventCondition = z
  .strictObject({
    kind: z.literal('event'),
    log: nfcText(255).optional().describe('The log that the event is from, such as System. Exact.'),
    category: EventCategory.optional(),
    level: EventLevel.optional().describe('This level or a worse one.'),
    source: nfcText(255).optional().describe('Exact, such as Microsoft-Windows-Kernel-Power.'),
    eventId: z
      .number()
      .int()
      .min(0)
      .max(4_294_967_295)
      .optional()
      .describe('As the source numbers its events.'),
    text: nfcText(200).optional().describe('Part of the message, case-insensitive.'),
    count: z
      .number()
      .int()
      .min(1)
      .max(1000)
      .describe(
        'The number of events that fit. Of a device that sends floods of events, the newest 5,000 of the time are read.',
      ),
    withinMinutes: minutes(1, DAY_MINUTES).describe('The time in which so many events happened.'),
  })
  .refine(
    ({ log, category, level, source, eventId, text: part }) =>
      [log, category, level, source, eventId, part].some((given) => given !== undefined),
    'must have at least one of log, category, level, source, eventId and text',
  );

const SoftwareCondition = z.strictObject({
  kind: z.literal('software'),
  name: nfcText(200).describe('Part of the name, case-insensitive.'),
  change: z.enum(['installed', 'removed']),
});

const ServiceCondition = z.strictObject({
  kind: z.literal('service'),
  name: nfcText(200).describe('The name or the display name of the service. Exact, but ignoring case.'),
  state: z
    .enum(['stopped', 'running', 'failed'])
    .describe('`failed` is a service that has ended with an error. It counts as `stopped` as well.'),
  forMinutes: minutes(0, DAY_MINUTES)
    .optional()
    .describe(
      'How long the service has been in that state, so that one that is restarted raises no alert. Devices look once a minute. Default 0.',
    ),
});

const ReportedCondition = z.strictObject({
  kind: z.literal('reported'),
  alertKind: AlertKind.describe('What the server reports by itself, such as backup_failed.'),
});

export const RuleCondition = z
  .discriminatedUnion('kind', [
    OfflineCondition,
    MetricCondition,
    EventCondition,
    SoftwareCondition,
    ServiceCondition,
    ReportedCondition,
  ])
  .meta({ id: 'AlertCondition' });
export type RuleCondition = z.infer<typeof RuleCondition>;
export type ConditionKind = RuleCondition['kind'];
export type ConditionOf<K extends ConditionKind> = Extract<RuleCondition, { kind: K }>;

const fields = {
  name: nfcText(100),
  enabled: z.boolean(),
  severity: AlertSeverity,
  target: DeviceTarget,
  condition: RuleCondition,
  autoResolve: z
    .boolean()
    .describe('Whether the alert resolves by itself when the condition is no longer met.'),
  cooldownMinutes: minutes(0, 10_080).describe(
    'After an alert of the rule about a device was resolved, the rule raises none about it for this time.',
  ),
};

export const AlertRule = z
  .object({
    id: z.uuid(),
    orgId: z.uuid().nullable().describe('Null: it covers all organizations of the partner.'),
    partnerId: z.uuid(),
    ...fields,
    name: z.string(),
    alertKind: z.string().describe('The kind of the alerts that it raises.'),
    openAlerts: z
      .number()
      .int()
      .describe('Alerts of the rule that are not resolved, as far as the caller sees them.'),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'AlertRule' });
export type AlertRule = z.input<typeof AlertRule>;

export const NewAlertRule = z.strictObject({
  ...fields,
  enabled: fields.enabled.optional().describe('Default true.'),
  autoResolve: fields.autoResolve
    .optional()
    .describe('Whether the alert resolves by itself when the condition is no longer met. Default true.'),
  cooldownMinutes: fields.cooldownMinutes.optional(),
  orgId: Id.optional().describe('Leave it out in partner scope for a rule of the partner.'),
});
export type NewAlertRule = z.infer<typeof NewAlertRule>;

export const AlertRulePatch = z.strictObject(fields).partial();
export type AlertRulePatch = z.infer<typeof AlertRulePatch>;

export const AlertRuleQuery = PageQuery.extend({
  orgId: Id.optional().describe(
    'Only rules that cover devices of this organization: its own, and those of its partner.',
  ),
  kind: z.enum(['offline', 'metric', 'event', 'software', 'service', 'reported']).optional(),
  search: text(100).optional().describe('Part of the name, case-insensitive.'),
});
export type AlertRuleQuery = z.infer<typeof AlertRuleQuery>;

export const RulePreviewRequest = z.strictObject({
  orgId: NewAlertRule.shape.orgId,
  target: DeviceTarget,
  condition: RuleCondition,
  cooldownMinutes: NewAlertRule.shape.cooldownMinutes,
});
export type RulePreviewRequest = z.infer<typeof RulePreviewRequest>;

export const RulePreview = z
  .object({
    from: Timestamp,
    to: Timestamp,
    devices: z.number().int().describe('The devices of the target.'),
    examined: z.number().int().describe('Those whose history was examined.'),
    complete: z
      .boolean()
      .describe(
        'False if there were more devices or alerts than the preview examines, or an organization keeps the figures of each minute for less than seven days. Of services only the present states are known, and since when, so it is false for a rule about one.',
      ),
    count: z.number().int().describe('The alerts that the rule would have raised.'),
    affected: z.number().int().describe('The devices about which it would have raised alerts.'),
    before: z
      .number()
      .int()
      .describe(
        'The devices whose condition was already met when the seven days began, as far as the day before shows. These alerts are not among the others. 0 for what the server reports by itself.',
      ),
    byDay: z.array(z.object({ day: z.string().describe('In UTC.'), count: z.number().int() })),
    alerts: z
      .array(
        z.object({
          deviceId: z.uuid(),
          orgId: z.uuid(),
          deviceName: z.string(),
          raisedAt: Timestamp,
          resolvedAt: Timestamp.nullable().describe('Null if the condition was still met at the end.'),
          what: z.string().describe('Such as the figure and the volume.'),
        }),
      )
      .describe('The newest ones, at most 200.'),
  })
  .meta({ id: 'AlertRulePreview' });
export type RulePreview = z.input<typeof RulePreview>;
