import { z } from 'zod';
import { Id, nfcText, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import {
  OsType,
  SavedScriptLanguage,
  SCRIPT_MAX_BYTES,
  SCRIPT_TIMEOUT_MAX_SECONDS,
} from '../../protocol/index.ts';
import { PARAMETERS_MAX, ScriptParameter, ScriptParameters } from './script-parameters.ts';

export const Script = z
  .object({
    id: z.uuid(),
    orgId: z.uuid().nullable(),
    partnerId: z.uuid().nullable().describe('Set for scripts that belong to the whole partner.'),
    name: z.string(),
    description: z.string().nullable(),
    language: SavedScriptLanguage,
    content: z.string(),
    osTypes: z.array(OsType).describe('Empty for any operating system.'),
    timeoutSeconds: z.number().int(),
    parameters: z.array(ScriptParameter),
    fingerprint: z
      .string()
      .describe(
        'SHA-256 of everything but the name and the descriptions. It names the state of the script that you have read, such as when a schedule gives it secrets.',
      ),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'Script' });

const fields = {
  name: nfcText(255),
  description: nfcText(1000, 0).nullable().optional(),
  language: SavedScriptLanguage,
  content: text(SCRIPT_MAX_BYTES),
  osTypes: z
    .array(OsType)
    .max(OsType.options.length)
    .transform((list) => [...new Set(list)])
    .optional(),
  timeoutSeconds: z.number().int().min(1).max(SCRIPT_TIMEOUT_MAX_SECONDS).optional().describe('Default 300.'),
  parameters: ScriptParameters.optional().describe(
    `What the script expects, at most ${PARAMETERS_MAX}. Runs and schedules with values that do not fit are refused, and get default values for what they leave out; values of other names are passed on.`,
  ),
};

export const NewScript = z.strictObject({
  ...fields,
  orgId: Id.optional().describe('Leave it out in partner scope for a script of all organizations.'),
});
export type NewScript = z.infer<typeof NewScript>;

export const ScriptPatch = z.strictObject(fields).partial();
export type ScriptPatch = z.infer<typeof ScriptPatch>;

export const ScriptQuery = PageQuery.extend({
  orgId: Id.optional().describe('Only scripts that can run in this organization.'),
  language: SavedScriptLanguage.optional(),
  search: nfcText(255)
    .transform((part) => part.trim())
    .optional()
    .describe('Part of the name, ignoring case.'),
});
export type ScriptQuery = z.infer<typeof ScriptQuery>;
