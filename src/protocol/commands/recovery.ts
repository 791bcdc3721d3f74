import { z } from 'zod';
import { reportedText, text } from '../primitives.ts';
import type { CommandTable } from './shape.ts';

/** What the execution of a recovery plan needs on a device, beside restores. */

const Port = z.number().int().min(1).max(65_535);
const Host = text(253).describe('As the device reaches it.');

export const CHECK_TIMEOUT_MAX_SECONDS = 3600;

const ServiceCheck = z.discriminatedUnion('type', [
  z.object({ type: z.literal('tcp'), host: Host, port: Port }),
  z.object({
    type: z.literal('http'),
    host: Host,
    port: Port,
    path: text(2000),
    secure: z.boolean().describe('Over TLS. The certificate is not verified.'),
    expectStatus: z.number().int().optional().describe('Any from 200 to 399 where it is left out.'),
    contains: text(500).optional().describe('Text in the first 64 KiB of the answer.'),
  }),
]);
export type ServiceCheck = z.infer<typeof ServiceCheck>;

export const RECOVERY_COMMANDS = {
  'recovery.check': {
    lane: 'work',
    isOfServer: true,
    payload: z.object({
      check: ServiceCheck,
      timeoutSeconds: z
        .number()
        .int()
        .min(1)
        .max(CHECK_TIMEOUT_MAX_SECONDS)
        .describe('The check is repeated until it passes or this time has expired.'),
    }),
    output: z.object({
      passed: z.boolean(),
      message: reportedText(500).describe('What was found, of the last attempt.'),
      attempts: z.number().int().nonnegative(),
      seconds: z.number().nonnegative(),
    }),
  },
  'recovery.discard-restore': {
    lane: 'interactive',
    isOfServer: true,
    payload: z.object({
      restoreId: z.uuid().describe('A restore without a target: its folder of the agent is removed.'),
    }),
    output: z.object({ wasThere: z.boolean() }),
  },
} as const satisfies CommandTable;
