import { z } from 'zod';
import type { CommandTable } from './shape.ts';

export const INVENTORY_COMMANDS = {
  'agent.refresh-inventory': { lane: 'interactive', payload: z.object({}), output: z.object({}) },
} as const satisfies CommandTable;
