import { z } from 'zod';
import { CommandProgress } from './agent-messages.ts';
import { CommandStatus, ScriptOutputRow } from './commands/index.ts';

/** Long-running work on the dashboard socket, where it is called jobs: commands, backups and others. */

/** The states of work that is not a command. */
const WorkState = z.enum(['pending', 'running', 'completed', 'partial', 'passed', 'failed', 'cancelled']);

export const JobState = z.enum([...CommandStatus.options, ...WorkState.options]);
export type JobState = z.infer<typeof JobState>;

const OPEN_STATES: readonly JobState[] = ['queued', 'dispatched', 'accepted', 'running', 'pending'];
/** Whether a job in this state has ended. */
export const isFinal = (state: JobState): boolean => !OPEN_STATES.includes(state);

const SUCCESSES: readonly JobState[] = ['succeeded', 'completed', 'passed'];

/** The outcome of a job for people. A script that ran to its end may still have failed. */
export type Ending = Pick<JobUpdate, 'state' | 'exitCode'>;

/** Whether a job has succeeded. */
export const hasDoneItsWork = ({ state, exitCode = 0 }: Ending): boolean =>
  SUCCESSES.includes(state) && exitCode === 0;

/** The outcome of a script that ran to its end and failed, in words; undefined for all other jobs. */
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
      'The type of a command, such as `script.run`, or of other work: `backup`, `restore`, `vm_restore`, `verification`, `key_rotation`, `dr`. The rights of the user decide which of the latter are sent.',
    ),
  orgId: z.uuid(),
  deviceId: z.uuid().optional(),
  commandId: z.uuid().optional().describe('The command by which a device does this work.'),
  state: JobState.describe(
    'For a command: `queued`, `dispatched`, `accepted` and `running` are open. For other work: `pending` and `running`. All others are final.',
  ),
  ...CommandProgress.omit({ id: true, seq: true }).shape,
  phase: z.string().describe('As the device reports it. If it reports none, this repeats `state`.'),
  percent: z
    .number()
    .min(0)
    .max(100)
    .nullable()
    .optional()
    .describe('Null, or absent for a command: unknown.'),
  stalledSince: z
    .string()
    .optional()
    .describe('Present if running work has not advanced for 15 minutes: the time since when.'),
  exitCode: z
    .number()
    .int()
    .nullable()
    .optional()
    .describe(
      'For a `script.run` that has succeeded, which means that the script ran to its end: its exit code, null if a signal ended it.',
    ),
  at: z.string().describe('When the job reached this state.'),
});
export type JobUpdate = z.infer<typeof JobUpdate>;

/** Converted to lower case, in which the database returns ids, so that they can be compared. */
const id = z.uuid().toLowerCase().optional();

/** Subscribes to all visible jobs, to those of an organization or a device, or to one job and its output. */
export const JobsSubscribe = z
  .strictObject({ orgId: id, deviceId: id, jobId: id })
  .refine((filter) => Object.keys(filter).length <= 1, 'must name one of orgId, deviceId and jobId, or none');
export type JobsSubscribe = z.infer<typeof JobsSubscribe>;

export const JobsSnapshot = z.object({
  ok: z.literal(true),
  jobs: z
    .array(JobUpdate)
    .describe(
      'The open jobs, newest first: at most 200 commands, and 200 of each other kind. With `jobId`: that job, open or not.',
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
