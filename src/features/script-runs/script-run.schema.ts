import { z } from 'zod';
import { Id, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import {
  CommandStatus,
  OsType,
  SavedScriptLanguage,
  ScriptParameters,
  scriptSecrets,
  SECRET_MAX_LENGTH,
} from '../../protocol/index.ts';
import { Command, Refusal } from '../commands/index.ts';
import { DeviceTarget } from '../device-targets/index.ts';

/** What became of a run on a device. */
export const RunOutcome = z.enum([
  'waiting',
  'running',
  'completed',
  'failed',
  'timed_out',
  'cancelled',
  'expired',
  'refused',
]);
export type RunOutcome = z.infer<typeof RunOutcome>;

/** The outcomes after which *run again on those that failed* takes a device again. */
export const FAILED_OUTCOMES = ['failed', 'timed_out', 'expired'] as const satisfies RunOutcome[];

export const RunState = z.enum(['starting', 'running', 'cancelling', 'completed', 'cancelled', 'failed']);
export type RunState = z.infer<typeof RunState>;

const Counts = z
  .object({
    waiting: z.number().int().describe('The device has not begun: it is busy, or away.'),
    running: z.number().int(),
    completed: z.number().int().describe('Ended with exit code 0.'),
    failed: z.number().int().describe('Ended with another exit code, by a signal, or could not be run.'),
    timedOut: z.number().int(),
    cancelled: z.number().int(),
    expired: z.number().int().describe('The device was away until the run expired.'),
    refused: z.number().int().describe('The device was given no command.'),
  })
  .meta({ id: 'ScriptRunCounts' });
export type Counts = z.infer<typeof Counts>;

export const ScriptRun = z
  .object({
    id: z.uuid(),
    partnerId: z.uuid(),
    orgIds: z.array(z.uuid()).describe('Those of its organizations that you can access.'),
    scriptId: z.uuid().nullable().describe('Null if the script was deleted.'),
    scriptName: z.string().describe('As it was called when the run was started.'),
    language: SavedScriptLanguage,
    version: z
      .string()
      .describe(
        'SHA-256 of the language, the timeout and the content that devices run, separated by line breaks.',
      ),
    state: RunState.describe(
      '`starting`: its commands are being added. `failed`: not all of them could be added. A run on whose devices the script has failed is `completed`.',
    ),
    counts: Counts,
    total: z.number().int().describe('The number of its devices that you can access.'),
    parameters: z
      .record(z.string(), z.string())
      .nullable()
      .describe('Null without the permission to execute scripts, because they may be secrets.'),
    secretNames: z.array(z.string()),
    target: DeviceTarget.nullable().describe(
      'Which devices were asked for; they were looked up once. Null of a repetition, and if you cannot access all organizations of the run.',
    ),
    againOf: z.uuid().nullable().describe('The run of which it is a repetition.'),
    scheduleId: z.uuid().nullable().describe('The schedule that has started it.'),
    createdBy: z.uuid().nullable(),
    createdByName: z.string().nullable(),
    createdAt: Timestamp,
    expiresAt: Timestamp.describe('A device that was not reached by then does not run it.'),
    startedAt: Timestamp.nullable().describe('When all of its commands were added.'),
    finishedAt: Timestamp.nullable().describe('When the last of its devices ended; null while one has not.'),
    cancelRequestedAt: Timestamp.nullable(),
    error: z.string().nullable().describe('Why its commands were not all added.'),
  })
  .meta({ id: 'ScriptRun' });
export type ScriptRun = z.input<typeof ScriptRun>;

export const ScriptRunDetails = z
  .object({
    ...ScriptRun.shape,
    content: z
      .string()
      .nullable()
      .describe(
        'What devices run, also if the script was changed since. Null if you can neither see the script nor execute scripts.',
      ),
    osTypes: z.array(OsType),
    timeoutSeconds: z.number().int(),
  })
  .meta({ id: 'ScriptRunDetails' });
export type ScriptRunDetails = z.input<typeof ScriptRunDetails>;

export const ScriptRunQuery = PageQuery.extend({
  scriptId: Id.optional(),
  scheduleId: Id.optional(),
  createdBy: Id.optional().describe('Only runs that this person has started.'),
  orgId: Id.optional().describe('Only runs on devices of this organization.'),
  state: RunState.optional(),
});
export type ScriptRunQuery = z.infer<typeof ScriptRunQuery>;

export const RunDevice = z
  .object({
    deviceId: z.uuid(),
    orgId: z.uuid(),
    deviceName: z.string(),
    outcome: RunOutcome,
    commandId: z.uuid().nullable(),
    status: CommandStatus.nullable().describe('Of its command.'),
    reason: z.string().nullable(),
    exitCode: z.number().int().nullable(),
    outputHash: z.string().nullable().describe('Equal for devices that have reported the same.'),
    startedAt: Timestamp.nullable(),
    finishedAt: Timestamp.nullable(),
    durationMs: z.number().int().nullable(),
    refusal: Refusal.omit({ deviceId: true }).nullable().describe('Why it was given no command.'),
  })
  .meta({ id: 'ScriptRunDevice' });
export type RunDevice = z.input<typeof RunDevice>;

const OutputHash = z
  .string()
  .toLowerCase()
  .regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in hexadecimal digits');

export const RunDeviceQuery = PageQuery.extend({
  outcome: RunOutcome.optional(),
  outputHash: OutputHash.optional().describe('Only devices that have reported this.'),
});
export type RunDeviceQuery = z.infer<typeof RunDeviceQuery>;

/** How many devices a group of equal output names. */
export const NAMES_MAX = 5;
/** How much of an output a list shows. */
export const PREVIEW_MAX = 200;

export const OutputGroup = z
  .object({
    outputHash: z.string(),
    exitCode: z.number().int().nullable(),
    devices: z.number().int().describe('How many devices have reported exactly this.'),
    deviceNames: z.array(z.string()).describe(`The first ${NAMES_MAX} of them by name.`),
    preview: z
      .string()
      .describe(`The first ${PREVIEW_MAX} characters of the output, else of the errors or of the failure.`),
    size: z.number().int().describe('Characters of output and errors together.'),
  })
  .meta({ id: 'ScriptRunOutputGroup' });
export type OutputGroup = z.infer<typeof OutputGroup>;

export const OutputParams = z.object({
  id: Id,
  outputHash: OutputHash,
});

export const RunOutput = z
  .object({
    outputHash: z.string(),
    exitCode: z.number().int().nullable(),
    stdout: z.string(),
    stderr: z.string(),
    truncated: z.boolean().describe('Only the end of the output was kept.'),
    error: z
      .object({ code: z.string(), message: z.string() })
      .nullable()
      .describe('Why the script could not be run.'),
  })
  .meta({ id: 'ScriptRunOutput' });
export type RunOutput = z.infer<typeof RunOutput>;

/** Each device has its own sealed copy, and there may be thousands. */
export const SECRETS_MAX_LENGTH = 10_000;

const Secrets = scriptSecrets(text(SECRET_MAX_LENGTH))
  .refine((secrets) => Object.values(secrets).join('').length <= SECRETS_MAX_LENGTH, {
    error: `must have at most ${SECRETS_MAX_LENGTH} characters together`,
  })
  .optional()
  .describe(
    'Environment variables of the script: SECRET_<name>. They are sealed until the command has ended, and never shown or logged.',
  );

const variables = {
  parameters: ScriptParameters.optional().describe('Environment variables of the script: PARAM_<name>.'),
  secrets: Secrets,
};

/** The number of devices of one run. */
export const RUN_DEVICES_MAX = 10_000;
const DAY_SECONDS = 24 * 3600;

export const NewScriptRun = z.strictObject({
  target: DeviceTarget.describe(
    `The devices that you can access at this moment, at most ${RUN_DEVICES_MAX}. Those that cannot run the script are listed as refused, and stop none of the others.`,
  ),
  orgId: Id.optional().describe('Only devices of this organization.'),
  ...variables,
  ttlSeconds: z
    .number()
    .int()
    .min(60)
    .max(30 * DAY_SECONDS)
    .default(DAY_SECONDS)
    .describe('How long the run waits for devices that are offline.'),
});
export type NewScriptRun = z.output<typeof NewScriptRun>;

export const RunAgain = z.strictObject({
  which: z
    .enum(['all', 'failed'])
    .describe('`failed`: those on which it failed, timed out or expired. Only devices that you can access.'),
  secrets: Secrets.describe('Required again if the run had secrets, with the same names: they are not kept.'),
});
export type RunAgain = z.output<typeof RunAgain>;

/** The number of devices of the answer that lists all commands. */
export const MAX_DEVICES = 500;

export const ScriptExecution = z.strictObject({
  deviceIds: z
    .array(Id)
    .min(1)
    .max(MAX_DEVICES)
    .transform((ids) => [...new Set(ids)])
    .optional(),
  filterId: Id.optional().describe(
    `Instead of deviceIds: the devices that match a saved filter, at most ${MAX_DEVICES}.`,
  ),
  ...variables,
});
export type ScriptExecution = z.infer<typeof ScriptExecution>;

export const ExecutionStarted = z.object({
  executionId: z.uuid().describe('The id of the script run.'),
  commands: z.array(Command),
  refused: z.array(Refusal).describe('Devices on which the script was not started, and why.'),
});
