import { z } from 'zod';
import { defineJob } from '../../../platform/jobs/definition.ts';

/** Reads a repository, or prepares a test restore and hands it to the device. */
export const VERIFY = defineJob({
  name: 'backup.verify',
  input: z.object({ verificationId: z.uuid() }),
  attempts: 3,
  concurrency: 2,
});
