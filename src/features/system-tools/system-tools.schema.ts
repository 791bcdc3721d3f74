import { z } from 'zod';
import { Id, instantOrDay, text, Timestamp } from '../../platform/http/fields.ts';
import {
  EndedProcess,
  LiveService,
  LiveServiceSummary,
  MachineProcess,
  PID_MAX,
  ProcessSummary,
  SERVICE_NAME_MAX,
  ServiceAction,
  ServiceChange,
} from '../../protocol/index.ts';

export const DeviceParams = z.object({ deviceId: Id });

export const ProcessParams = DeviceParams.extend({
  pid: z
    .string()
    .regex(/^[1-9]\d{0,9}$/)
    .transform(Number)
    .refine((pid) => pid <= PID_MAX),
});

/** Compared with what the device lists, and never part of a command line that a shell reads. */
export const ServiceParams = DeviceParams.extend({ name: text(SERVICE_NAME_MAX) });

const whenRead = {
  readAt: Timestamp.describe('When the device had answered, by the clock of the server.'),
  tookMs: z.number().int(),
};

export const ProcessList = z.object({
  data: z.array(MachineProcess).describe('Those that use the processors most come first.'),
  meta: ProcessSummary.extend(whenRead),
});
export type ProcessList = z.input<typeof ProcessList>;

export const LiveServiceList = z.object({
  data: z.array(LiveService).describe('By name.'),
  meta: LiveServiceSummary.extend(whenRead),
});
export type LiveServiceList = z.input<typeof LiveServiceList>;

export const EndProcess = z.strictObject({
  startedAt: instantOrDay('begin').describe(
    'When the process started, as the list says. If the number belongs to another process now, the response is 409.',
  ),
});
export type EndProcess = z.infer<typeof EndProcess>;

export const ProcessEnd = EndedProcess.extend({ pid: z.number().int() }).meta({ id: 'ProcessEnd' });
export type ProcessEnd = z.input<typeof ProcessEnd>;

export const ServiceControlled = ServiceChange.extend({ name: z.string(), action: ServiceAction }).meta({
  id: 'ServiceControlled',
});
export type ServiceControlled = z.input<typeof ServiceControlled>;
