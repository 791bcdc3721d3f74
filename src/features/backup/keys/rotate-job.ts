import { z } from 'zod';
import { defineJob } from '../../../platform/jobs/definition.ts';

export const RotationProgress = z.object({ done: z.number().int(), postponed: z.number().int() });

/**
 * Over all repositories of all keys that were rotated. Added with each rotation, and every five minutes for what was busy
 * in the round before.
 */
export const ROTATE = defineJob({
  name: 'backup.rotate-keys',
  input: z.object({}),
  result: RotationProgress,
  progress: RotationProgress,
  inCluster: 1,
  attempts: 1,
});
