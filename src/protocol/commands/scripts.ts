import { z } from 'zod';
import { reportedText, text } from '../primitives.ts';
import { SecretRef } from './secrets.ts';
import type { CommandTable } from './shape.ts';

export const ScriptLanguage = z.enum(['bash', 'powershell', 'python', 'cmd']);
export type ScriptLanguage = z.infer<typeof ScriptLanguage>;

/** The languages of scripts that are kept. Windows commands are run as they are typed, and not kept. */
export const SavedScriptLanguage = ScriptLanguage.exclude(['cmd']);
export type SavedScriptLanguage = z.infer<typeof SavedScriptLanguage>;

/** The largest script, in characters. */
export const SCRIPT_MAX_BYTES = 200_000;
/** How many characters of each stream a result keeps: the last ones. */
export const SCRIPT_OUTPUT_MAX = 100_000;
export const SCRIPT_TIMEOUT_MAX_SECONDS = 86_400;

const VariableName = z
  .string()
  .regex(/^[A-Za-z_]\w{0,63}$/, 'must be a name of letters, digits and underscores');

export const ScriptParameters = z.record(VariableName, text(4000, 0));

/** The secrets of a script: their values in a request (`text`), references in the payload (`SecretRef`). */
export const scriptSecrets = <V extends z.ZodType>(value: V) => z.record(VariableName, value);

/** What a script has printed on one of its streams. */
export const ScriptOutputRow = z.object({ stream: z.enum(['stdout', 'stderr']), text: z.string() });

export const SCRIPT_COMMANDS = {
  'script.run': {
    lane: 'work',
    payload: z.object({
      language: ScriptLanguage,
      content: text(SCRIPT_MAX_BYTES),
      parameters: ScriptParameters.optional().describe('Environment variables of the script: PARAM_<name>.'),
      secrets: scriptSecrets(SecretRef)
        .optional()
        .describe('Environment variables of the script: SECRET_<name>.'),
      timeoutSeconds: z.number().int().min(1).max(SCRIPT_TIMEOUT_MAX_SECONDS),
    }),
    row: ScriptOutputRow,
    output: z.object({
      exitCode: z.number().int().nullable().describe('null where a signal ended the script.'),
      stdout: reportedText(SCRIPT_OUTPUT_MAX, 0),
      stderr: reportedText(SCRIPT_OUTPUT_MAX, 0),
      truncated: z.boolean().describe('True where only the end of a stream was kept.'),
    }),
  },
} as const satisfies CommandTable;
