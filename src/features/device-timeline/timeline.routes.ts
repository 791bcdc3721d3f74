import { z } from 'zod';
import { everyScope } from '../../platform/http/authentication.ts';
import { Id, IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { noteOfDevice } from '../devices/index.ts';
import type { TimelineSource } from '../timeline-source.ts';
import {
  DeviceNote,
  DeviceNotePage,
  DeviceNotePatch,
  DeviceNoteQuery,
  NewDeviceNote,
} from './note.schema.ts';
import { addNote, changeNote, deleteNote, listNotes } from './note.service.ts';
import { Timeline, TimelineQuery } from './timeline.schema.ts';
import { readTimeline } from './timeline.service.ts';

const NoteParams = IdParams.extend({ noteId: Id });

export const timelineRoutes = ({
  timelineSources,
}: {
  timelineSources: readonly TimelineSource[];
}): RouteGroup => ({
  name: 'Device timeline',
  description: 'What has happened to a device, and what people have noted about it.',
  routes: [
    route({
      method: 'get',
      path: '/devices/:id/timeline',
      summary: 'Read what has happened to a device, newest first',
      description:
        'Connections, alerts, commands, backups, upgrades, changes of software, terminals, changes of the device and notes in one list. What lasts is listed by its beginning. Kinds that the caller may not read are left out and named in `hidden`.',
      access: everyScope('devices:read'),
      params: IdParams,
      query: TimelineQuery,
      response: Timeline,
      handler: ({ ctx, params, query }) => readTimeline(ctx, params.id, query, timelineSources),
    }),
    route({
      method: 'get',
      path: '/devices/:id/notes',
      summary: 'List the notes about a device, pinned ones first, then the newest',
      access: everyScope('devices:read'),
      params: IdParams,
      query: DeviceNoteQuery,
      response: DeviceNotePage,
      handler: ({ ctx, params, query }) => listNotes(ctx, params.id, query),
    }),
    route({
      method: 'post',
      path: '/devices/:id/notes',
      summary: 'Add a note about a device',
      access: everyScope('devices:write'),
      params: IdParams,
      body: NewDeviceNote,
      response: DeviceNote,
      status: 201,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => addNote(ctx, params.id, body),
      audit: {
        action: 'device.note.create',
        resource: 'device',
        note: ({ id }, { ctx, params }) => noteOfDevice(ctx, params.id, { noteId: id }),
      },
    }),
    route({
      method: 'patch',
      path: '/devices/:id/notes/:noteId',
      summary: 'Change, pin or unpin a note about a device',
      description: 'Only the author can change the text.',
      access: everyScope('devices:write'),
      params: NoteParams,
      body: DeviceNotePatch,
      response: DeviceNote,
      handler: ({ ctx, params, body }) => changeNote(ctx, params, body),
      audit: {
        action: 'device.note.update',
        resource: 'device',
        note: ({ id }, { ctx, params }) => noteOfDevice(ctx, params.id, { noteId: id }),
      },
    }),
    route({
      method: 'delete',
      path: '/devices/:id/notes/:noteId',
      summary: 'Delete a note about a device',
      description: 'That of another person requires `devices:delete`.',
      access: everyScope('devices:write'),
      params: NoteParams,
      response: z.object({ success: z.literal(true) }),
      handler: ({ ctx, params }) => deleteNote(ctx, params),
      audit: {
        action: 'device.note.delete',
        resource: 'device',
        note: (_answer, { ctx, params }) => noteOfDevice(ctx, params.id, { noteId: params.noteId }),
      },
    }),
  ],
});
