import { LOAD_CORE, startProcess } from '../processes.ts';

/** What a process of dashboards can be told to do, and what it answers. */
export interface WatcherCommands {
  /** Connects and subscribes so many, one after the other. */
  watch: { ask: WatchOrder; answer: { watching: number } };
  /** What has come since this was asked last. */
  seen: { ask: Record<string, never>; answer: Seen };
  stopReading: { ask: Record<string, never>; answer: Record<string, never> };
}
export interface WatchOrder {
  port: number;
  count: number;
}
export interface Seen {
  frames: number;
  /** Updates, and milliseconds from the change to its reading, at those few that look into what they read. */
  updatesSeen: number;
  lookers: number;
  delayP50: number;
  delayP99: number;
  /** Connections that the server has ended, over all. */
  closed: number;
}
export type WatcherCommand = keyof WatcherCommands;

export interface Watchers {
  order<C extends WatcherCommand>(
    command: C,
    ask: WatcherCommands[C]['ask'],
  ): Promise<WatcherCommands[C]['answer']>;
  stop(): Promise<void>;
}

export async function startWatchers(): Promise<Watchers> {
  const child = await startProcess('load/watchers.ts', { cores: LOAD_CORE });
  return {
    // The process answers each command as the table says.
    order: (command, ask) => child.call(command, ask) as Promise<never>,
    stop: () => child.stop(),
  };
}
