import { z } from 'zod';
import { Instant, reportedLine } from './primitives.ts';

/** The running processes of a machine, which the server reads while a person waits. */

/** The most processes in one answer. */
export const LISTED_PROCESSES_MAX = 1000;
export const PROCESS_NAME_MAX = 200;
export const COMMAND_LINE_MAX = 1000;

/** The largest number of a process; Windows numbers them with 32 bits. */
export const PID_MAX = 4_294_967_295;
export const Pid = z.number().int().min(1).max(PID_MAX);

export const ProcessState = z.enum(['running', 'sleeping', 'waiting', 'stopped', 'zombie']);
export type ProcessState = z.infer<typeof ProcessState>;

const Name = reportedLine(PROCESS_NAME_MAX);

export const MachineProcess = z
  .object({
    pid: Pid,
    parentPid: z.number().int().min(0).max(PID_MAX).optional(),
    name: Name,
    commandLine: reportedLine(COMMAND_LINE_MAX)
      .optional()
      .describe(`Cut to ${COMMAND_LINE_MAX} characters. Absent if the agent may not read it.`),
    user: reportedLine(PROCESS_NAME_MAX)
      .optional()
      .describe('The user it runs as: the name, or the number if the machine has no name for it.'),
    cpuPercent: z
      .number()
      .min(0)
      .max(100)
      .optional()
      .describe(
        'Between two readings that are about a second apart, of all processors together. Absent if it started in between.',
      ),
    memoryBytes: z
      .number()
      .int()
      .min(0)
      .max(Number.MAX_SAFE_INTEGER)
      .optional()
      .describe('The part of its memory that is in RAM.'),
    startedAt: z.iso
      .datetime({ offset: true })
      .optional()
      .describe('By the clock of the device, which may be wrong.'),
    state: ProcessState.optional().describe(
      '`waiting`: for a disk or a network drive, and cannot be interrupted. `zombie`: it has ended, and its parent has not collected it. Windows has no states.',
    ),
    isProtected: z
      .boolean()
      .optional()
      .describe(
        'True for processes that the agent never ends: its own ones, and those that the system needs.',
      ),
  })
  .meta({ id: 'MachineProcess' });
export type MachineProcess = z.infer<typeof MachineProcess>;

export const ProcessSummary = z.object({
  total: z
    .number()
    .int()
    .min(0)
    .max(PID_MAX)
    .describe('How many processes the machine has. More than are listed: those that use the most are.'),
});

export const ProcessToEnd = z.object({
  pid: Pid,
  startedAt: Instant.describe(
    'When the process started, as the list says. A later process with the same number is not ended.',
  ),
});

export const EndedProcess = z.object({
  outcome: z
    .enum(['ended', 'killed', 'still_running'])
    .describe(
      '`ended`: by itself, after it was asked to. `killed`: it did not end within the grace period. `still_running`: the system has not ended it yet, as with one that waits for a disk.',
    ),
  name: Name,
  user: reportedLine(PROCESS_NAME_MAX).optional(),
  graceSeconds: z
    .number()
    .min(0)
    .max(60)
    .describe('How long the process had to end by itself. 0 if the system cannot ask it to.'),
});
export type EndedProcess = z.infer<typeof EndedProcess>;
