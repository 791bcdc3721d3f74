import { z } from 'zod';
import { text } from '../primitives.ts';
import { TerminalOffset, TerminalRow, TerminalSize } from '../terminals.ts';
import type { CommandTable } from './shape.ts';

/** Error codes of `terminal.open`. */
export const TerminalErrorCode = {
  notFound: 'TERMINAL_NOT_FOUND',
  notStarted: 'TERMINAL_NOT_STARTED',
  tooMany: 'TOO_MANY_TERMINALS',
} as const;

/**
 * The live query that starts a terminal or continues one. It lasts as long as the viewer stays: its rows are the output,
 * its end is the end of the terminal, and cancelling it leaves the terminal without a viewer.
 */
export const TERMINAL_COMMANDS = {
  'terminal.open': {
    payload: z.object({
      terminalId: z.uuid(),
      ...TerminalSize.shape,
      isNew: z.boolean().describe('False to continue a terminal that runs; another viewer is replaced.'),
      after: TerminalOffset.optional().describe('How many characters of output the viewer has already.'),
      viewer: text(300).describe('Who opens it, for the people at the device.'),
    }),
    row: TerminalRow,
    output: z.object({
      reason: z
        .enum(['exited', 'closed', 'unattended', 'replaced', 'too_long', 'agent_stopped'])
        .describe(
          '`exited`: the shell has ended by itself. `replaced`: another viewer continues the terminal.',
        ),
      exitCode: z.number().int().nullable().describe('Null if the shell was ended, or runs on.'),
    }),
  },
} as const satisfies CommandTable;
