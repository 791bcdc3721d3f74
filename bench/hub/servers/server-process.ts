import type { TestDatabase } from '../../../test/support/test-postgres.ts';
import { SERVER_CORE, startProcess } from '../processes.ts';
import type { MeasuredCommands } from './measured.ts';

export interface ServerProcess {
  pid: number;
  url: string;
  port: number;
  measure<C extends keyof MeasuredCommands>(command: C): Promise<MeasuredCommands[C]>;
  stop(): Promise<void>;
}

export interface ServerSettings {
  cores?: string;
  nodeFlags?: string[];
  env?: Record<string, string>;
}

export async function startMeasured(
  script: 'muster' | 'offers-hub' | 'plain-socket-io' | 'raw-ws',
  { cores = SERVER_CORE, nodeFlags = ['--expose-gc'], env = {} }: ServerSettings = {},
): Promise<ServerProcess> {
  const child = await startProcess(`servers/${script}.ts`, { cores, nodeFlags, env });
  return {
    pid: child.pid,
    url: child.greeting,
    port: Number(new URL(child.greeting).port),
    // The table defines the response to each command.
    measure: (command) => child.call(command, {}) as Promise<never>,
    stop: () => child.stop(),
  };
}

export function onDatabase({ ownerUrl, appUrl }: TestDatabase): Record<string, string> {
  return { BENCH_OWNER_URL: ownerUrl, BENCH_APP_URL: appUrl };
}

/** Disables admission control, for figures that do not measure it. */
export const LIFTED_ADMISSION = { BENCH_ADMIT_PER_SECOND: '100000' };
