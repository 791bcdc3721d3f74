import { z } from 'zod';
import { reportedLine } from '../primitives.ts';
import type { CommandTable } from './shape.ts';

/** Shadow copies of volumes (VSS), which let Windows back up what is in use. */

const Guid = z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);

export const VSS_WRITERS_MAX = 500;
export const VSS_PROVIDERS_MAX = 50;

export const VssWriter = z.object({
  name: reportedLine(255),
  writerId: Guid,
  instanceId: Guid.nullable(),
  state: z.number().int().min(0).max(255).describe('The number of VSS_WRITER_STATE.'),
  status: z.enum(['stable', 'waiting', 'failed', 'unknown']),
  lastError: reportedLine(500).describe('In the language of the machine. Also where there was none.'),
});
export type VssWriter = z.infer<typeof VssWriter>;

export const VssProvider = z.object({
  name: reportedLine(255),
  providerId: Guid,
  type: reportedLine(255).describe('In the language of the machine.'),
  version: reportedLine(50),
});
export type VssProvider = z.infer<typeof VssProvider>;

export const VssStatus = z.object({
  status: z
    .enum(['ready', 'busy', 'failed', 'unknown'])
    .describe(
      '`failed`: at least one writer has failed. `busy`: at least one waits for a backup to go on. `unknown`: Windows listed no writers, or one in a state that nobody knows.',
    ),
  writers: z.array(VssWriter).max(VSS_WRITERS_MAX),
  providers: z.array(VssProvider).max(VSS_PROVIDERS_MAX),
});
export type VssStatus = z.infer<typeof VssStatus>;

/** Why a device cannot say how its shadow copies are. */
export const VssErrorCode = {
  elevationNeeded: 'ELEVATION_NEEDED',
  timedOut: 'VSS_TIMED_OUT',
  failed: 'VSS_FAILED',
} as const;

export const SHADOW_COPY_COMMANDS = {
  'backup.vss-status': { payload: z.object({}), output: VssStatus },
} as const satisfies CommandTable;
