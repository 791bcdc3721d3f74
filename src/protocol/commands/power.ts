import { z } from 'zod';
import type { CommandTable } from './shape.ts';

export const POWER_COMMANDS = {
  'agent.reboot': {
    lane: 'interactive',
    payload: z.object({ delaySeconds: z.number().int().min(0).max(86_400).optional() }),
    output: z.object({}),
  },
} as const satisfies CommandTable;
