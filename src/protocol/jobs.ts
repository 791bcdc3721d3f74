import { z } from 'zod';
import { CommandProgress } from './agent-messages.ts';
import { CommandStatus, ScriptOutputRow } from './commands/index.ts';

/** Durable commands as users follow them on the dashboard socket, where they are called jobs. */

export const JobUpdate = z.object({
  id: z.uuid(),
  kind: z.string().describe('The type of the command.'),
  orgId: z.uuid(),
  deviceId: z.uuid().optional(),
  state: CommandStatus.describe('The last five are final.'),
  ...CommandProgress.omit({ id: true, seq: true }).shape,
  phase: z.string().describe('As the device reports it. Where it reports nothing, this repeats `state`.'),
  at: z.string().describe('When the job reached this state.'),
});
export type JobUpdate = z.infer<typeof JobUpdate>;

/** Converted to lower case, as in the names of the rooms of the subscribers. */
const id = z.uuid().toLowerCase().optional();

/** Subscribes to all jobs that the caller may see, to those of an organization or a device, or to one job and its output. */
export const JobsSubscribe = z
  .strictObject({ orgId: id, deviceId: id, jobId: id })
  .refine((filter) => Object.keys(filter).length <= 1, 'must name one of orgId, deviceId and jobId, or none');
export type JobsSubscribe = z.infer<typeof JobsSubscribe>;

export const JobsSnapshot = z.object({
  ok: z.literal(true),
  jobs: z.array(JobUpdate).describe('The open jobs, newest first; with `jobId` that job, open or not.'),
});
export type JobsSnapshot = z.infer<typeof JobsSnapshot>;

/** The output of a job while it runs, for the subscribers of that one job. */
export const JobOutput = z.object({
  id: z.uuid(),
  seq: z.number().int().describe('One more than the last one. After a gap, some output is missing.'),
  rows: z.array(ScriptOutputRow),
});
export type JobOutput = z.infer<typeof JobOutput>;
