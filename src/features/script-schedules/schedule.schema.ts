import { z } from 'zod';
import { Id, nfcText, text, Timestamp, TimeZone } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { ScriptParameters, scriptSecrets, SECRET_MAX_LENGTH } from '../../protocol/index.ts';
import { DeviceTarget } from '../device-targets/index.ts';
import { SECRETS_MAX_LENGTH } from '../script-runs/index.ts';
import { cronFault, SHORTEST_MINUTES } from './cron.ts';

export const PauseReason = z.enum([
  'person_gone',
  'permission_lost',
  'access_lost',
  'script_gone',
  'script_changed',
  'secrets_missing',
  'secrets_unreadable',
]);
export type PauseReason = z.infer<typeof PauseReason>;

export const SkipReason = z.enum(['missed', 'no_devices', 'too_many_devices', 'partner_inactive']);
export type SkipReason = z.infer<typeof SkipReason>;

const CRON_MAX = 100;

const Cron = z
  .string()
  .max(CRON_MAX)
  .overwrite((cron) => cron.trim().replaceAll(/\s+/g, ' '))
  .superRefine((cron, context) => {
    const message = cronFault(cron);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .describe(
    `Minute, hour, day of the month, month and weekday, such as \`30 2 * * 1-5\`; at most every ${SHORTEST_MINUTES} minutes. A time that clocks skip stands for the first moment after it, and one that they show twice counts once.`,
  );

const DAY_MINUTES = 1440;

/** The number of secrets of one schedule. */
export const SECRETS_MAX = 30;

/** Windows ignores the case of the names of variables. */
const isEachOnce = (secrets: Readonly<Record<string, unknown>>) =>
  new Set(Object.keys(secrets).map((name) => name.toLowerCase())).size === Object.keys(secrets).length;

const secretsOf = <V extends z.ZodType>(value: V) =>
  scriptSecrets(value)
    .refine(isEachOnce, { error: 'must not have the same name twice, ignoring case' })
    .optional();

const SECRETS = `Environment variables of the script: SECRET_<name>, at most ${SECRETS_MAX} with ${SECRETS_MAX_LENGTH} characters together. They are stored sealed, handed to each run, and never shown.`;

const fields = {
  name: nfcText(100),
  scriptId: Id,
  enabled: z.boolean().optional().describe('Default true.'),
  cron: Cron,
  timezone: TimeZone.describe('Of the clocks by which it is due.'),
  target: DeviceTarget.describe('Looked up at each run.'),
  parameters: ScriptParameters.optional().describe(
    'Environment variables of the script: PARAM_<name>. They are stored as they are, so they must hold no secrets.',
  ),
  scriptFingerprint: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'must be the fingerprint of a script')
    .optional()
    .describe(
      'The `fingerprint` of the script that you have read: it, as it is, may be given the secrets. Refused with 409 if the script was changed since. Without it the secrets are given to the script as it is now, if it is another one than before or if all of them are given with this request.',
    ),
  catchUpMinutes: z
    .number()
    .int()
    .min(5)
    .max(30 * DAY_MINUTES)
    .optional()
    .describe(
      'For how long after its time it still runs on devices that were away, once, and after all servers were away. Default 1440.',
    ),
};

export const NewScriptSchedule = z.strictObject({
  ...fields,
  secrets: secretsOf(text(SECRET_MAX_LENGTH)).describe(SECRETS),
  orgId: Id.optional().describe('Leave it out in partner scope for the devices of all organizations.'),
});
export type NewScriptSchedule = z.infer<typeof NewScriptSchedule>;

export const ScriptSchedulePatch = z
  .strictObject({
    ...fields,
    secrets: secretsOf(text(SECRET_MAX_LENGTH).nullable()).describe(
      `${SECRETS} A text sets or replaces a secret, null removes it, and what is left out stays. Those that stay and that another person has set must be given again, or removed, with any change of the script, the target, the parameters or the secrets.`,
    ),
  })
  .partial();
export type ScriptSchedulePatch = z.infer<typeof ScriptSchedulePatch>;

export const ScriptScheduleQuery = PageQuery.extend({
  orgId: Id.optional().describe('Only schedules of this organization, and those of its partner.'),
  scriptId: Id.optional(),
});
export type ScriptScheduleQuery = z.infer<typeof ScriptScheduleQuery>;

export const ScriptSchedule = z
  .object({
    id: z.uuid(),
    orgId: z.uuid().nullable().describe('Null: it runs on devices of all organizations of the partner.'),
    partnerId: z.uuid(),
    name: z.string(),
    scriptId: z.uuid().nullable().describe('Null if the script was deleted.'),
    scriptName: z.string().nullable().describe('Null if the script was deleted, or you cannot see it.'),
    enabled: z.boolean(),
    cron: z.string(),
    timezone: z.string(),
    target: DeviceTarget,
    parameters: z
      .record(z.string(), z.string())
      .nullable()
      .describe('Null without the permission to execute scripts.'),
    secrets: z
      .array(
        z.object({
          name: z.string(),
          setBy: z.uuid().nullable().describe('Who has set it. Null if the account was deleted.'),
          setAt: Timestamp,
        }),
      )
      .describe('The secrets that are set, without their values.'),
    secretsFor: z
      .string()
      .nullable()
      .describe('The `fingerprint` of the script that may be given the secrets; null without secrets.'),
    catchUpMinutes: z.number().int(),
    runsAs: z.uuid().nullable().describe('The person by whose rights it runs: who changed it last.'),
    runsAsName: z.string().nullable(),
    nextRuns: z.array(Timestamp).describe('The next three times; empty while it is disabled or paused.'),
    paused: z
      .object({ reason: PauseReason, message: z.string(), at: Timestamp.nullable() })
      .nullable()
      .describe('Why the server does not run it, until a person changes it.'),
    lastSlotAt: Timestamp.nullable().describe('The last of its times that has come.'),
    lastSkip: SkipReason.nullable().describe(
      'Why it did not run at `lastSlotAt`: all servers were away for longer than `catchUpMinutes`, there were no devices or too many, or the partner was not active.',
    ),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'ScriptSchedule' });
export type ScriptSchedule = z.input<typeof ScriptSchedule>;

export const SchedulePreviewRequest = z.strictObject({ cron: Cron, timezone: TimeZone });
export type SchedulePreviewRequest = z.infer<typeof SchedulePreviewRequest>;

export const SchedulePreview = z.object({ data: z.array(Timestamp).describe('The next three times.') });
