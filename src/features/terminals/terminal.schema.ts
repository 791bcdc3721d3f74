import { z } from 'zod';
import { Timestamp } from '../../platform/http/fields.ts';
import { pageOf, PageQuery } from '../../platform/http/pagination.ts';
import { TerminalEnd } from '../../protocol/index.ts';

export const TerminalSettings = z
  .object({
    enabled: z.boolean().describe('Whether terminals of the organization’s devices may be opened.'),
  })
  .meta({ id: 'TerminalSettings' });
export type TerminalSettings = z.infer<typeof TerminalSettings>;

export const TerminalSettingsChange = z.strictObject({ enabled: z.boolean() });
export type TerminalSettingsChange = z.infer<typeof TerminalSettingsChange>;

export const TerminalRecording = z
  .object({
    id: z.uuid().describe('The id of the terminal.'),
    deviceId: z.uuid(),
    userId: z.uuid().nullable().describe('Null if the account was deleted.'),
    userName: z.string(),
    userEmail: z.string(),
    openedAt: Timestamp,
    endedAt: Timestamp.nullable().describe('Null while the terminal is open.'),
    endReason: TerminalEnd.nullable(),
    exitCode: z.number().int().nullable(),
    characters: z.number().int().describe('How much output is recorded.'),
    storedBytes: z.number().int(),
  })
  .meta({ id: 'TerminalRecording' });
export type TerminalRecording = z.input<typeof TerminalRecording>;

export const TerminalRecordingQuery = PageQuery;
export const TerminalRecordingPage = pageOf(TerminalRecording);
