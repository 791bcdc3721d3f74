import type { CommandType, RECOVERY_COMMANDS } from '../commands/index.ts';
import { type CommandExample, PURPOSE_ID } from './command-example.ts';

export const RECOVERY_EXAMPLES: {
  [T in keyof typeof RECOVERY_COMMANDS & CommandType]: CommandExample<T>;
} = {
  'recovery.check': {
    summary: 'Finds out whether a service answers, as the device reaches it.',
    payload: {
      check: { type: 'http', host: '127.0.0.1', port: 40_443, path: '/health', secure: false },
      timeoutSeconds: 120,
    },
    output: { passed: true, message: 'It answered with status 200.', attempts: 3, seconds: 2.4 },
  },
  'recovery.discard-restore': {
    summary: 'Removes the files of a restore that went into a folder of the agent.',
    payload: { restoreId: PURPOSE_ID },
    output: { wasThere: true },
  },
};
