import { z } from 'zod';
import { CommandProgress } from './agent-messages.ts';
import { CommandStatus, ScriptOutputRow } from './commands/index.ts';

/** Long work as people follow it on the dashboard socket (SHAPES 6). */

export const JobUpdate = z.object({
  id: z.uuid(),
  kind: z.string().describe('The type of the command.'),
  orgId: z.uuid(),
  deviceId: z.uuid().optional(),
  state: CommandStatus,
  ...CommandProgress.omit({ id: true, seq: true }).shape,
  phase: z.string().describe('As the device says; the state, where it says nothing.'),
  at: z.string(),
});
export type JobUpdate = z.infer<typeof JobUpdate>;

/** In lower case, as the rooms of those who follow it are named. */
const id = z.uuid().toLowerCase().optional();

/** All work that the caller may see, an organization's, a device's, or one job with what it prints. */
export const JobsSubscribe = z
  .strictObject({ orgId: id, deviceId: id, jobId: id })
  .refine((filter) => Object.keys(filter).length <= 1, 'must name one of orgId, deviceId and jobId, or none');
export type JobsSubscribe = z.infer<typeof JobsSubscribe>;

export const JobsSnapshot = z.object({
  ok: z.literal(true),
  jobs: z.array(JobUpdate).describe('What is open at this moment, newest first; the one that was named.'),
});
export type JobsSnapshot = z.infer<typeof JobsSnapshot>;

/** What a job prints, as it prints it: to those who follow that one job. */
export const JobOutput = z.object({
  id: z.uuid(),
  seq: z.number().int().describe('One more than the last; what is between is not shown.'),
  rows: z.array(ScriptOutputRow),
});
export type JobOutput = z.infer<typeof JobOutput>;
