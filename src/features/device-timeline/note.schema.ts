import { z } from 'zod';
import { text, Timestamp } from '../../platform/http/fields.ts';
import { pageOf, PageQuery } from '../../platform/http/pagination.ts';

const TEXT_MAX = 4000;

export const DeviceNote = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    text: z.string(),
    isPinned: z.boolean().describe('Whether the page of the device shows it first.'),
    createdBy: z.uuid().nullable().describe('Null if the account of the author was deleted.'),
    authorName: z.string().describe('The name of the author when the note was written.'),
    createdAt: Timestamp,
    editedAt: Timestamp.nullable().describe('When its text was changed last; null if it never was.'),
  })
  .meta({ id: 'DeviceNote' });
export type DeviceNote = z.input<typeof DeviceNote>;

export const NewDeviceNote = z.strictObject({
  text: text(TEXT_MAX),
  isPinned: z.boolean().default(false),
});
export type NewDeviceNote = z.infer<typeof NewDeviceNote>;

export const DeviceNotePatch = z.strictObject({
  text: text(TEXT_MAX).optional().describe('Only the author can change it.'),
  isPinned: z.boolean().optional(),
});
export type DeviceNotePatch = z.infer<typeof DeviceNotePatch>;

export const DeviceNoteQuery = PageQuery.extend({
  pinned: z
    .enum(['true', 'false'])
    .transform((value) => value === 'true')
    .optional(),
});
export type DeviceNoteQuery = z.infer<typeof DeviceNoteQuery>;
export const DeviceNotePage = pageOf(DeviceNote);
