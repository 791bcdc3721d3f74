import { z } from 'zod';
import { CommandProgress } from './agent-messages.ts';
import { CommandStatus, ScriptOutputRow } from './commands/index.ts';

/** Long work as users follow it on the dashboard socket, where it is called jobs: commands, backups and the like. */

/** The states of work that is no command. */
const WorkState = z.enum(['pending', 'running', 'completed', 'partial', 'passed', 'failed', 'cancelled']);

export const JobState = z.enum([...CommandStatus.options, ...WorkState.options]);
export type JobState = z.infer<typeof JobState>;

const OPEN_STATES: readonly JobState[] = ['queued', 'dispatched', 'accepted', 'running', 'pending'];
/** Whether a job in this state has ended. */
export const isFinal = (state: JobState): boolean => !OPEN_STATES.includes(state);

const SUCCESSES: readonly JobState[] = ['succeeded', 'completed', 'passed'];

/** How a job has ended, as far as people are concerned. A script that was run may have failed nevertheless. */
export type Ending = Pick<JobUpdate, 'state' | 'exitCode'>;

/** Whether a job has ended and done its work. */
export const hasDoneItsWork = ({ state, exitCode = 0 }: Ending): boolean =>
  SUCCESSES.includes(state) && exitCode === 0;

/** The outcome of a script that was run to its end and has failed, in words; undefined of all other jobs. */
export function scriptFailure({
  state,
  exitCode,
}: Omit<Ending, 'state'> & { state: string }): string | undefined {
  if (state !== 'succeeded' || exitCode === undefined || exitCode === 0) return undefined;
  return exitCode === null ? 'Ended by a signal' : `Exit code ${exitCode}`;
}

const Exit = z.object({ exitCode: z.number().int().nullable() });

/** The exit code in the output of a command, which only a script has. */
export const exitCodeIn = (output: unknown): number | null | undefined =>
  Exit.safeParse(output).data?.exitCode;

export const JobUpdate = z.object({
  id: z.uuid(),
  kind: z
    .string()
    .describe(
      'The type of a command, such as `script.run`, or of other work: `backup`, `restore`, `vm_restore`, `verification`, `key_rotation`, `dr`. Which of the latter are sent depends on the rights of the user.',
    ),
  orgId: z.uuid(),
  deviceId: z.uuid().optional(),
  commandId: z.uuid().optional().describe('The command by which a device does this work.'),
  state: JobState.describe(
    'Of a command: `queued`, `dispatched`, `accepted` and `running` are open. Of other work: `pending` and `running`. All others are final.',
  ),
  ...CommandProgress.omit({ id: true, seq: true }).shape,
  phase: z.string().describe('As the device reports it. Where it reports nothing, this repeats `state`.'),
  percent: z
    .number()
    .min(0)
    .max(100)
    .nullable()
    .optional()
    .describe('Null, or left out with a command: not known.'),
  stalledSince: z
    .string()
    .optional()
    .describe('Present where the work runs and has not advanced for 15 minutes: since when.'),
  exitCode: z
    .number()
    .int()
    .nullable()
    .optional()
    .describe(
      'Of a `script.run` that has succeeded, which says that the script was run to its end: the code it ended with, null where a signal ended it.',
    ),
  at: z.string().describe('When the job reached this state.'),
});
export type JobUpdate = z.infer<typeof JobUpdate>;

/** Converted to lower case, as the database returns ids, so that the two compare. */
const id = z.uuid().toLowerCase().optional();

/** Subscribes to all jobs that the caller may see, to those of an organization or a device, or to one job and its output. */
export const JobsSubscribe = z
  .strictObject({ orgId: id, deviceId: id, jobId: id })
  .refine((filter) => Object.keys(filter).length <= 1, 'must name one of orgId, deviceId and jobId, or none');
export type JobsSubscribe = z.infer<typeof JobsSubscribe>;

export const JobsSnapshot = z.object({
  ok: z.literal(true),
  jobs: z
    .array(JobUpdate)
    .describe(
      'The open jobs, newest first: at most 200 commands, and 200 of each other kind. With `jobId` that job, open or not.',
    ),
});
export type JobsSnapshot = z.infer<typeof JobsSnapshot>;

/** The output of a job while it runs, for the subscribers of that one job. */
export const JobOutput = z.object({
  id: z.uuid(),
  seq: z.number().int().describe('One more than the last one. After a gap, some output is missing.'),
  rows: z.array(ScriptOutputRow),
});
export type JobOutput = z.infer<typeof JobOutput>;
