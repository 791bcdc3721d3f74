import { z } from 'zod';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { Id, IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { noteOfDevice } from '../devices/index.ts';
import {
  TerminalRecordingPage,
  TerminalRecordingQuery,
  TerminalSettings,
  TerminalSettingsChange,
} from './terminal.schema.ts';
import {
  changeTerminalSettings,
  downloadRecording,
  listRecordings,
  readTerminalSettings,
} from './terminal.service.ts';

const RecordingParams = IdParams.extend({ recordingId: Id });

export const terminalRoutes = ({ secrets }: { secrets: Encryptor }): RouteGroup => ({
  name: 'Terminals',
  description:
    'Terminals of devices. They are opened over the dashboard’s socket (`terminal:open`), and their output is recorded and kept for 90 days. What is typed is not recorded.',
  routes: [
    route({
      method: 'get',
      path: '/orgs/organizations/:id/terminals',
      summary: 'Read whether an organization allows terminals',
      access: everyScope('organizations:read'),
      params: IdParams,
      response: TerminalSettings,
      handler: ({ ctx, params }) => readTerminalSettings(ctx, params.id),
    }),
    route({
      method: 'put',
      path: '/orgs/organizations/:id/terminals',
      summary: 'Allow or forbid terminals of an organization’s devices',
      description: 'Terminals that are open end when they are forbidden.',
      access: { ...peopleOfEveryScope('organizations:write'), mfa: true },
      params: IdParams,
      body: TerminalSettingsChange,
      response: TerminalSettings,
      handler: ({ ctx, params, body }) => changeTerminalSettings(ctx, params.id, body),
      audit: {
        action: 'organization.terminals.update',
        resource: 'organization',
        note: ({ name }, { params }) => ({ orgId: params.id, resourceId: params.id, resourceName: name }),
      },
    }),
    route({
      method: 'get',
      path: '/devices/:id/terminal-recordings',
      summary: 'List the terminals of a device that were opened, newest first',
      access: everyScope('devices:terminal'),
      params: IdParams,
      query: TerminalRecordingQuery,
      response: TerminalRecordingPage,
      handler: ({ ctx, params, query }) => listRecordings(ctx, params.id, query),
    }),
    route({
      method: 'get',
      path: '/devices/:id/terminal-recordings/:recordingId/cast',
      summary: 'Download the recording of a terminal in the format asciicast v2',
      description: 'Of a terminal that is open, what is recorded so far.',
      access: everyScope('devices:terminal'),
      cost: 'expensive',
      params: RecordingParams,
      response: z.string(),
      media: ['application/x-asciicast'],
      handler: ({ ctx, params }) => downloadRecording(ctx, params, secrets),
      audit: {
        action: 'data.access',
        resource: 'device',
        note: (_answer, { ctx, params }) => noteOfDevice(ctx, params.id, { terminalId: params.recordingId }),
      },
    }),
  ],
});
