import type { CommandExample } from './command-example.ts';

export const WINDOWS_EXAMPLES: { 'backup.vss-status': CommandExample<'backup.vss-status'> } = {
  'backup.vss-status': {
    summary: 'Lists the shadow copy writers and providers of Windows.',
    payload: {},
    output: {
      status: 'ready',
      writers: [
        {
          name: 'SqlServerWriter',
          writerId: 'a65faa63-5ea8-4ebc-9dbd-a0c4db26912a',
          instanceId: '1bddd48e-5052-49db-9b07-b96f96727e6b',
          state: 1,
          status: 'stable',
          lastError: 'No error',
        },
      ],
      providers: [
        {
          name: 'Microsoft Software Shadow Copy provider 1.0',
          providerId: 'b5946137-7b9f-4925-af80-51abd60b20d5',
          type: 'System',
          version: '1.0.0.7',
        },
      ],
    },
  },
};
