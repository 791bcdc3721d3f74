import { z } from 'zod';
import { DAY_MS } from '../../clock.ts';
import { defineWork } from '../work/index.ts';

/** The work that asks one device. It waits for the device: its deadline is the end of the question. */
export const ASKING = defineWork({
  kind: 'event_log_question',
  input: z.object({}),
  steps: ['await', 'ask'],
  // Of one organization, which is the target, and of one partner.
  limits: { inProcess: 16, ofPartner: 32, ofTarget: 8 },
  deadlineMs: 30 * DAY_MS,
  keptDays: 30,
});
