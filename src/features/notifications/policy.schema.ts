import { z } from 'zod';
import { ClockTime, Id, nfcText, TimeZone, Timestamp, instantOrDay } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { AlertKind, AlertSeverity } from '../alerts/index.ts';
import { ChannelType } from './channel.schema.ts';

export const STEPS_MAX = 10;
/** The recipients of one step. */
export const RECIPIENTS_MAX = 20;
const WEEK_MINUTES = 10_080;

const distinct = <T>(list: readonly T[]): T[] => [...new Set(list)];

/** A part of each of some days, by the clock on the wall of a time zone. */
export const WeeklyHours = z
  .strictObject({
    days: z
      .array(z.number().int().min(0).max(6))
      .min(1)
      .max(7)
      .overwrite(distinct)
      .optional()
      .describe('On which it begins; 0 is Sunday. Every day when it is left out.'),
    from: ClockTime,
    to: ClockTime.describe('On the next day if it lies before `from`. The same as `from`: for 24 hours.'),
    timezone: TimeZone,
  })
  .meta({ id: 'WeeklyHours' });
export type WeeklyHours = z.infer<typeof WeeklyHours>;

export const PolicyMatch = z
  .strictObject({
    severities: z.array(AlertSeverity).min(1).max(5).transform(distinct).optional(),
    kinds: z.array(AlertKind).min(1).max(50).transform(distinct).optional(),
    orgIds: z
      .array(Id)
      .min(1)
      .max(200)
      .transform(distinct)
      .optional()
      .describe('Only in policies of the partner.'),
    siteIds: z
      .array(Id)
      .min(1)
      .max(200)
      .transform(distinct)
      .optional()
      .describe('Alerts that concern a whole organization are at no site.'),
    hours: WeeklyHours.optional().describe('When the alert was raised.'),
  })
  .describe('An alert has to fit all that is given. Nothing given: every alert fits.')
  .meta({ id: 'NotificationPolicyMatch' });
export type PolicyMatch = z.infer<typeof PolicyMatch>;

const Recipients = z.array(Id).max(RECIPIENTS_MAX).transform(distinct);

export const PolicyStep = z
  .strictObject({
    afterMinutes: z.number().int().min(0).max(WEEK_MINUTES).describe('After the first message is due.'),
    channelIds: Recipients.optional(),
    userIds: Recipients.optional().describe('Each person is told by mail, as their own settings say.'),
  })
  .superRefine(({ channelIds = [], userIds = [] }, context) => {
    const recipients = channelIds.length + userIds.length;
    if (recipients > 0 && recipients <= RECIPIENTS_MAX) return;
    context.addIssue({
      code: 'custom',
      path: ['channelIds'],
      message: `must have 1 to ${RECIPIENTS_MAX} recipients together with userIds`,
    });
  })
  .meta({ id: 'NotificationPolicyStep' });
export type PolicyStep = z.infer<typeof PolicyStep>;

const Steps = z
  .array(PolicyStep)
  .min(1)
  .max(STEPS_MAX)
  .superRefine((steps, context) => {
    for (const [place, { afterMinutes }] of steps.entries()) {
      const before = steps[place - 1]?.afterMinutes ?? -1;
      if (afterMinutes > before) continue;
      context.addIssue({
        code: 'custom',
        path: [place, 'afterMinutes'],
        message: 'must be later than the step before it',
      });
    }
  });

export const GroupBy = z.enum(['none', 'device', 'site', 'rule']);
export type GroupBy = z.infer<typeof GroupBy>;

export const EscalatesUntil = z.enum(['acknowledged', 'resolved']);
export type EscalatesUntil = z.infer<typeof EscalatesUntil>;

const fields = {
  name: nfcText(200),
  enabled: z.boolean(),
  match: PolicyMatch,
  steps: Steps,
  repeatEveryMinutes: z
    .number()
    .int()
    .min(5)
    .max(WEEK_MINUTES)
    .nullable()
    .describe('After the last step everybody is told again this often, at most 200 times. Null: not again.'),
  groupBy: GroupBy.describe(
    'Alerts of the same device, site or kind are one conversation while it is open. `none`: each alert is its own.',
  ),
  groupSeconds: z
    .number()
    .int()
    .min(0)
    .max(3600)
    .describe(
      'How long the first message waits for further alerts of its group. Those that come later are told together, at most once in this time, and never more often than once a minute.',
    ),
  until: EscalatesUntil.describe('What ends the escalation.'),
};

export const NewPolicy = z.strictObject({
  orgId: Id.optional().describe('Leave it out in partner scope for a policy of the partner.'),
  name: fields.name,
  enabled: fields.enabled.optional().describe('Default true.'),
  match: fields.match.optional(),
  steps: fields.steps,
  repeatEveryMinutes: fields.repeatEveryMinutes.optional(),
  groupBy: fields.groupBy.optional().describe('Default `none`.'),
  groupSeconds: fields.groupSeconds.optional().describe('Default 0 with `none`, otherwise 30.'),
  until: fields.until.optional().describe('Default `acknowledged`.'),
});
export type NewPolicy = z.infer<typeof NewPolicy>;

export const PolicyPatch = z.strictObject(fields).partial();
export type PolicyPatch = z.infer<typeof PolicyPatch>;

const Uuid = z.uuid();

export const NotificationPolicy = z
  .object({
    id: Uuid,
    orgId: Uuid.nullable().describe(
      'Null: it belongs to the partner, and follows the policies of the organization.',
    ),
    partnerId: Uuid,
    position: z.number().int().describe('The first enabled policy that fits takes the alert.'),
    name: z.string(),
    enabled: z.boolean(),
    match: z.object({
      severities: z.array(AlertSeverity).optional(),
      kinds: z.array(z.string()).optional(),
      orgIds: z.array(Uuid).optional(),
      siteIds: z.array(Uuid).optional(),
      hours: WeeklyHours.optional(),
    }),
    steps: z.array(
      z.object({
        afterMinutes: z.number().int(),
        channelIds: z.array(Uuid),
        userIds: z.array(Uuid),
      }),
    ),
    channels: z
      .array(z.object({ id: Uuid, name: z.string(), type: ChannelType }))
      .describe('The channels of the steps, also those of the partner that you cannot see otherwise.'),
    users: z
      .array(z.object({ id: Uuid, name: z.string() }))
      .describe('The people of the steps who still reach the tenant of the policy.'),
    repeatEveryMinutes: z.number().int().nullable(),
    groupBy: GroupBy,
    groupSeconds: z.number().int(),
    until: EscalatesUntil,
    createdBy: Uuid.nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'NotificationPolicy' });

export const PolicyQuery = PageQuery.extend({
  orgId: Id.optional().describe('Only policies of this organization.'),
  ofPartner: z.literal('true').optional().describe('Only policies of the partner itself.'),
});
export type PolicyQuery = z.infer<typeof PolicyQuery>;

export const POLICIES_MAX = 50;

export const PolicyOrder = z.strictObject({
  orgId: Id.optional().describe('Leave it out in partner scope for the policies of the partner.'),
  policyIds: z.array(Id).max(POLICIES_MAX).describe('All policies of the owner, each once, the first first.'),
});
export type PolicyOrder = z.infer<typeof PolicyOrder>;

export const PolicyOrderAnswer = z.object({ policyIds: z.array(Uuid) });

/** An alert that somebody thinks of. */
export const Simulation = z.strictObject({
  orgId: Id,
  severity: AlertSeverity,
  kind: AlertKind,
  siteId: Id.optional(),
  deviceId: Id.optional().describe('Its site is used when `siteId` is left out.'),
  at: instantOrDay().optional().describe('When it is raised; now when it is left out.'),
});
export type Simulation = z.infer<typeof Simulation>;

export const SimulatedTelling = z.object({
  at: Timestamp,
  reason: z.enum(['raised', 'escalated', 'repeated']),
  step: z.number().int().describe('The first is 1. Repetitions have the last one.'),
  channelId: Uuid.nullable(),
  userId: Uuid.nullable(),
  name: z.string().nullable().describe('Null if it does not exist any more.'),
  suppressed: z.string().nullable().describe('Why nothing is sent; null if it is.'),
});

export const SimulationAnswer = z
  .object({
    policyId: Uuid.nullable().describe('The policy that takes the alert; null: nobody is told.'),
    policyName: z.string().nullable(),
    considered: z
      .array(z.object({ policyId: Uuid, policyName: z.string(), fault: z.string().nullable() }))
      .describe('The policies in order up to the one that takes the alert, with why the others do not.'),
    timeline: z
      .array(SimulatedTelling)
      .describe('If nobody acknowledges or resolves it, for at most 7 days.'),
    isCut: z.boolean().describe('There would be more than the timeline has.'),
  })
  .meta({ id: 'NotificationSimulation' });
export type SimulationAnswer = z.infer<typeof SimulationAnswer>;
