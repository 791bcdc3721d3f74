import { z } from 'zod';

const CheckState = z.enum(['ok', 'failed', 'unavailable', 'not_configured']);
export type CheckState = z.infer<typeof CheckState>;

export const Health = z.object({
  status: z.literal('ok'),
  version: z.string(),
  uptime: z.number().int().describe('Seconds.'),
});
export const Liveness = z.object({ status: z.literal('ok') });
export const Readiness = z.object({
  status: z.enum(['ready', 'not_ready']),
  checks: z.record(z.string(), CheckState),
});
export type Readiness = z.infer<typeof Readiness>;
