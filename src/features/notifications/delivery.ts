import { z } from 'zod';
import { DAY_MS, HOUR_MS, SECOND_MS } from '../../clock.ts';
import { defineWork } from '../work/index.ts';

/**
 * Sends one notification, whose id it has. A receiver that does not answer is tried for a day. Each receiver has few
 * places, so that a slow one holds up only what is for it.
 */
export const NOTIFICATION = defineWork({
  kind: 'notification',
  input: z.object({}),
  steps: ['send'],
  limits: { inProcess: 32, ofPartner: 16, ofTarget: 2 },
  // The deadline ends the attempts, not their number.
  attempts: 100,
  backOff: { firstMs: 5 * SECOND_MS, longestMs: HOUR_MS },
  deadlineMs: DAY_MS,
  // The log of notifications has its facts.
  keptDays: 7,
});
