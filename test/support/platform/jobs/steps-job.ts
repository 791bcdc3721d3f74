import { z } from 'zod';
import { defineJob } from '../../../../src/platform/jobs/definition.ts';

/** Five steps, of which those that are done are not done again. Answers the steps of its last attempt. */
export const STEPS = defineJob({
  name: 'test.steps',
  input: z.object({}),
  result: z.array(z.number()),
  progress: z.object({ done: z.number() }),
  resumes: true,
});
