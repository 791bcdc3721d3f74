import { z } from 'zod';
import type { CommandTable } from './shape.ts';

export const UPDATE_COMMANDS = {
  'agent.set-auto-update': {
    lane: 'interactive',
    payload: z.object({ enabled: z.boolean() }),
    output: z.object({}),
  },
} as const satisfies CommandTable;
