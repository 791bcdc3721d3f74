import { z } from 'zod';
import { reportedLine, text } from './primitives.ts';

/**
 * Terminals of devices (docs/decisions/terminal.md). The output of a terminal is a text whose characters are counted
 * from its start: every message says at which of them it begins. A receiver therefore notices a gap, and a viewer that
 * was disconnected says where to continue. Characters are the units of JavaScript's strings.
 */

/** How much output may be on its way to a viewer that has not confirmed it, from the agent to the browser. */
export const TERMINAL_WINDOW = 256_000;
/** How much input may be on its way to the shell. */
export const TERMINAL_INPUT_WINDOW = 64_000;
/** The most characters of output in one message. */
export const TERMINAL_OUTPUT_MAX = 32_000;
/** The most characters of input in one message. */
export const TERMINAL_INPUT_MAX = 16_000;
/** How much of its last output the agent keeps for a viewer that comes back. */
export const TERMINAL_KEPT = 512_000;
/** A terminal of which no server has heard for this long has no viewer. Servers report more often. */
export const TERMINAL_LEASE_MS = 60_000;
/** A terminal without a viewer ends after this time. */
export const TERMINAL_UNATTENDED_MS = 5 * 60_000;
/** A terminal ends after this time in any case. */
export const TERMINAL_LONGEST_MS = 8 * 3_600_000;
/** How many terminals a device has at once. */
export const TERMINALS_PER_DEVICE = 4;

export const TerminalSize = z.object({
  cols: z.number().int().min(2).max(500),
  rows: z.number().int().min(1).max(300),
});
export type TerminalSize = z.infer<typeof TerminalSize>;

export const TerminalOffset = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);

export const TerminalMode = z
  .enum(['pty', 'lines'])
  .describe('`pty`: a terminal of the system. `lines`: the system has none, so the shell gets whole lines.');
export type TerminalMode = z.infer<typeof TerminalMode>;

export const TerminalNotice = z
  .enum(['shown', 'nobody', 'failed'])
  .describe('Whether the people who are signed in at the device were told; `nobody`: there are none.');
export type TerminalNotice = z.infer<typeof TerminalNotice>;

export const TerminalRow = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('attached').describe('The first row.'),
    mode: TerminalMode,
    shell: reportedLine(200),
    notice: TerminalNotice,
    offset: TerminalOffset.describe(
      'Where the output begins that follows. Greater than asked for if less was kept.',
    ),
  }),
  z.object({
    kind: z.literal('output'),
    offset: TerminalOffset.describe('Of the first character of `data`.'),
    data: z.string().max(TERMINAL_OUTPUT_MAX),
    received: TerminalOffset.describe(
      'How many characters of input the shell was given since this viewer came.',
    ),
  }),
]);
export type TerminalRow = z.infer<typeof TerminalRow>;

/** What a viewer sends to its terminal. Several of them may be merged into one. */
export const TerminalControl = z.object({
  id: text(64).describe('The id of the command that opened the terminal for this viewer.'),
  input: z.string().max(TERMINAL_INPUT_WINDOW).optional(),
  size: TerminalSize.optional(),
  taken: TerminalOffset.optional().describe(
    'How many characters of output the viewer has and the server has recorded.',
  ),
  end: z.literal(true).optional().describe('Ends the terminal.'),
});
export type TerminalControl = z.infer<typeof TerminalControl>;

const TerminalId = z.uuid().toLowerCase();

/** Opens a terminal of a device, or continues one with `terminalId`. */
export const TerminalOpen = z.strictObject({
  deviceId: z.uuid().toLowerCase(),
  ...TerminalSize.shape,
  terminalId: TerminalId.optional().describe('Continues this terminal.'),
  resumeToken: text(100)
    .optional()
    .describe(
      'From the acknowledgement of its opening. With it, the terminal is continued without another second factor.',
    ),
  after: TerminalOffset.optional().describe(
    'To continue: how many characters of output the client has already.',
  ),
});
export type TerminalOpen = z.infer<typeof TerminalOpen>;

export const TerminalOpened = z.object({
  ok: z.literal(true),
  terminalId: z.uuid(),
  resumeToken: z.string(),
  mode: TerminalMode,
  shell: z.string(),
  notice: TerminalNotice,
  offset: TerminalOffset.describe('Where the output begins that follows.'),
});
export type TerminalOpened = z.infer<typeof TerminalOpened>;

/** Input for a terminal, and the confirmation of output. */
export const TerminalInput = z.strictObject({
  terminalId: TerminalId,
  data: z.string().max(TERMINAL_INPUT_MAX).optional().describe('What was typed.'),
  taken: TerminalOffset.optional().describe(
    `How many characters of output the client has shown. At most ${TERMINAL_WINDOW} more are sent.`,
  ),
});
export type TerminalInput = z.infer<typeof TerminalInput>;

export const TerminalResize = z.strictObject({ terminalId: TerminalId, ...TerminalSize.shape });
export type TerminalResize = z.infer<typeof TerminalResize>;

export const TerminalClose = z.strictObject({ terminalId: TerminalId });
export type TerminalClose = z.infer<typeof TerminalClose>;

export const TerminalOutput = z.object({
  terminalId: z.uuid(),
  offset: TerminalOffset.describe('Of the first character of `data`.'),
  data: z.string(),
  received: TerminalOffset.describe(
    `How many characters of input the shell was given. At most ${TERMINAL_INPUT_WINDOW} more are accepted.`,
  ),
});
export type TerminalOutput = z.infer<typeof TerminalOutput>;

/** Why a terminal has ended, as it is recorded. */
export const TerminalEnd = z.enum([
  'closed',
  'exited',
  'not_started',
  'unattended',
  'too_long',
  'access_ended',
  'switched_off',
  'device_moved',
  'device_lost',
  'recording_failed',
  'recording_full',
  'protocol_violation',
  'agent_stopped',
]);
export type TerminalEnd = z.infer<typeof TerminalEnd>;

export const TerminalClosed = z.object({
  terminalId: z.uuid(),
  reason: TerminalEnd.or(z.enum(['disconnected', 'replaced'])).describe(
    '`disconnected`: the connection of the device or a server was lost; the terminal may run on. `replaced`: another window of the same person continues it.',
  ),
  exitCode: z.number().int().nullable().describe('Of the shell, if it has ended by itself.'),
  canContinue: z.boolean().describe('Whether `terminal:open` with its id may succeed.'),
});
export type TerminalClosed = z.infer<typeof TerminalClosed>;
