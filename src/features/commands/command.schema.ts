import { z } from 'zod';
import {
  COMMANDS,
  CommandProgress,
  CommandStatus,
  SENDABLE_COMMAND_TYPES,
  type SendableCommandType,
  secretRefsIn,
} from '../../protocol/index.ts';
import { Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

const Failure = z.object({ code: z.string(), message: z.string() });

export const Command = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    type: z.string(),
    scriptName: z
      .string()
      .nullable()
      .describe('The name of the script that it runs; null if it runs none, or the script is gone.'),
    status: CommandStatus,
    reason: z.string().nullable().describe('The reason for the status, if it is not obvious.'),
    waitsForDevice: z.boolean().describe('Whether the command is queued for a device that is offline.'),
    createdBy: z.uuid().nullable(),
    attempt: z.number().int().describe('How often it was sent to the device, which executes it once.'),
    cancelRequestedAt: Timestamp.nullable(),
    progress: CommandProgress.omit({ id: true, seq: true }).nullable(),
    output: z
      .unknown()
      .describe('Depends on the type: `script.run` has exitCode, stdout, stderr and truncated.'),
    error: Failure.nullable(),
    createdAt: Timestamp,
    expiresAt: Timestamp.describe('A command that has not reached the device by then expires.'),
    startedAt: Timestamp.nullable(),
    finishedAt: Timestamp.nullable(),
  })
  .meta({ id: 'Command' });
export type Command = z.input<typeof Command>;

export const CommandWithHistory = z.object({
  ...Command.shape,
  payload: z
    .unknown()
    .describe('null without the permission to execute, because script parameters may be secrets.'),
  lateResult: z.unknown().describe('A result that the device sent after the command had already ended.'),
  transitions: z.array(
    z.object({
      from: CommandStatus.nullable(),
      to: CommandStatus,
      reason: z.string().nullable(),
      attempt: z.number().int(),
      at: Timestamp,
    }),
  ),
});
export type CommandWithHistory = z.input<typeof CommandWithHistory>;

const TTL_DEFAULT_SECONDS = 24 * 3600;
const TTL_MAX_SECONDS = 30 * 24 * 3600;

const fields = {
  type: z.enum(SENDABLE_COMMAND_TYPES),
  payload: z.record(z.string(), z.unknown()).optional(),
  ttlSeconds: z
    .number()
    .int()
    .min(1)
    .max(TTL_MAX_SECONDS)
    .default(TTL_DEFAULT_SECONDS)
    .describe('How long the command waits for a device that is offline.'),
};

/** Parses the payload by the schema of the type, which the socket reference documents. */
function payloadOf(
  { type, payload = {} }: { type: SendableCommandType; payload?: Record<string, unknown> | undefined },
  context: z.core.$RefinementCtx,
) {
  const parsed = COMMANDS[type].payload.safeParse(payload);
  if (parsed.success && secretRefsIn(parsed.data).length > 0) {
    // References are made by the server. One from elsewhere could only belong to another tenant.
    context.addIssue({ code: 'custom', path: ['payload'], message: 'cannot hold references to secrets' });
    return z.NEVER;
  }
  if (parsed.success) return parsed.data;
  for (const issue of parsed.error.issues) {
    context.addIssue({ code: 'custom', path: ['payload', ...issue.path], message: issue.message });
  }
  return z.NEVER;
}

export const NewCommand = z
  .strictObject(fields)
  .transform((input, context) => ({ ...input, payload: payloadOf(input, context) }));
export type NewCommand = z.output<typeof NewCommand>;

const MAX_DEVICES = 1000;

export const NewCommands = z
  .strictObject({
    deviceIds: z
      .array(z.uuid().toLowerCase())
      .min(1)
      .max(MAX_DEVICES)
      .transform((ids) => [...new Set(ids)]),
    ...fields,
  })
  .transform((input, context) => ({ ...input, payload: payloadOf(input, context) }));
export type NewCommands = z.output<typeof NewCommands>;

export const Refusal = z.object({ deviceId: z.uuid(), code: z.string(), message: z.string() });
export type Refusal = z.infer<typeof Refusal>;

export const CommandsStarted = z.object({
  commands: z.array(Command),
  refused: z.array(Refusal).describe('Devices that did not receive the command, and why.'),
});

export const CommandQuery = PageQuery.extend({ status: CommandStatus.optional() });
export type CommandQuery = z.infer<typeof CommandQuery>;
