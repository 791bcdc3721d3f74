import { z } from 'zod';

/** Of a run or a restore. Configurations name that of their last run. */
export const CloudJobStatus = z.enum(['pending', 'running', 'completed', 'partial', 'failed', 'cancelled']);
export type CloudJobStatus = z.infer<typeof CloudJobStatus>;
