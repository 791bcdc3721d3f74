import { LOAD_CORE, startProcess } from '../processes.ts';
import type { LoadCommand, LoadCommands } from './commands.ts';

export interface LoadProcess {
  pid: number;
  order<C extends LoadCommand>(command: C, ask: LoadCommands[C]['ask']): Promise<LoadCommands[C]['answer']>;
  stop(): Promise<void>;
}

export async function startLoad(cores = LOAD_CORE): Promise<LoadProcess> {
  const child = await startProcess('load/main.ts', { cores });
  return {
    pid: child.pid,
    // The table defines the response to each command.
    order: (command, ask) => child.call(command, ask) as Promise<never>,
    stop: () => child.stop(),
  };
}

/** Source addresses of a load process, given its number. */
export const addressesOf = (processNumber: number): string[] =>
  Array.from({ length: 8 }, (_value, index) => `127.0.${processNumber + 1}.${index + 2}`);
