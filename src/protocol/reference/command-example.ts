import type { CommandOutput, CommandPayload, CommandType } from '../commands/index.ts';

/** What the examples of commands are made of. */

export interface CommandExample<T extends CommandType> {
  summary: string;
  payload: CommandPayload<T>;
  output: CommandOutput<T>;
}

export const SNAPSHOT_ID = '5f2c6d0e8a1b4c3d9e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d';
export const REPOSITORY = {
  destination: {
    type: 'server',
    path: '/backup-store/01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f9e/',
    user: '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f90',
    secret: { secretRef: '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f91' },
  },
  password: { secretRef: '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f92' },
} as const;
export const PURPOSE_ID = '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f93';
