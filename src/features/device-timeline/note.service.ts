import { clock } from '../../clock.ts';
import { type Context, holds } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { AppError, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { findDevice } from '../devices/index.ts';
import { DeviceNote } from './note.model.ts';
import type { DeviceNotePatch, DeviceNoteQuery, NewDeviceNote } from './note.schema.ts';

/** Of one device. Notes are read by people, of whom nobody reads more. */
const NOTES_MAX = 1000;
/** The right to delete what others have written. */
const DELETES_ALL = 'devices:delete';

interface NoteParams {
  id: string;
  noteId: string;
}

const accessible = ({ tx, caller }: Context) =>
  DeviceNote.query(tx).whereRaw(inTenant(caller, 'device_notes.org_id'));

/** Pinned ones first, then the newest. */
export async function listNotes(ctx: Context, id: string, { pinned, ...page }: DeviceNoteQuery) {
  await findDevice(ctx, id);
  const notes = accessible(ctx)
    .where('device_id', id)
    .orderBy([
      { column: 'is_pinned', order: 'desc' },
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(page.page - 1, page.limit);
  if (pinned !== undefined) void notes.where('is_pinned', pinned);
  return toPage(page, await notes);
}

export async function addNote(ctx: Context, id: string, note: NewDeviceNote): Promise<DeviceNote> {
  const { tx, caller } = ctx;
  const { orgId } = await findDevice(ctx, id);
  const count = await accessible(ctx).where('device_id', id).resultSize();
  if (count >= NOTES_MAX) {
    throw new AppError('conflict', `A device can have ${NOTES_MAX} notes. Delete some first.`);
  }
  return DeviceNote.query(tx).insertAndFetch({
    ...note,
    orgId,
    deviceId: id,
    createdBy: caller.userId,
    authorName: caller.name,
  });
}

export async function changeNote(ctx: Context, params: NoteParams, patch: DeviceNotePatch) {
  const note = await findNote(ctx, params);
  const changes = omitUndefined(patch);
  if (Object.keys(changes).length === 0) throw noFields();
  if (patch.text !== undefined && note.createdBy !== ctx.caller.userId) {
    throw new AppError('forbidden', 'Only the author of a note can change its text.');
  }
  return patchRecorded(ctx, note, {
    ...changes,
    ...(patch.text === undefined ? {} : { editedAt: clock.date() }),
  });
}

export async function deleteNote(ctx: Context, params: NoteParams) {
  const note = await findNote(ctx, params);
  if (note.createdBy !== ctx.caller.userId && !holds(ctx.caller.permissions, DELETES_ALL)) {
    throw new AppError('forbidden', `To delete the note of another person, you need ${DELETES_ALL}.`);
  }
  await note.$query(ctx.tx).delete();
  return { success: true as const };
}

async function findNote(ctx: Context, { id, noteId }: NoteParams): Promise<DeviceNote> {
  await findDevice(ctx, id);
  const note = await accessible(ctx).findById(noteId).where('device_id', id);
  if (note === undefined) throw notFound('Note');
  return note;
}
