import { z } from 'zod';

export const RolloutState = z
  .enum(['running', 'paused', 'halted', 'aborted', 'completed'])
  .describe('`paused` by a person, `halted` by failures; both can be resumed. `aborted` cannot.');
export type RolloutState = z.infer<typeof RolloutState>;

const A_MONTH_IN_MINUTES = 43_200;

export const WavePlan = z.strictObject({
  percent: z
    .number()
    .positive()
    .max(100)
    .multipleOf(0.01)
    .describe('The share of the fleet that this wave adds to the waves before it.'),
  soakMinutes: z
    .number()
    .int()
    .min(0)
    .max(A_MONTH_IN_MINUTES)
    .describe('How long the wave is observed before the next one opens.'),
});
export type WavePlan = z.infer<typeof WavePlan>;
