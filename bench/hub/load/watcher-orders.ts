import { LOAD_CORE, startProcess } from '../processes.ts';

/** The commands of a dashboard process and their responses. */
export interface WatcherCommands {
  /** Connects and subscribes this many dashboards, one after another. */
  watch: { ask: WatchOrder; answer: { watching: number } };
  /** What was received since the previous call. */
  seen: { ask: Record<string, never>; answer: Seen };
  stopReading: { ask: Record<string, never>; answer: Record<string, never> };
}
export interface WatchOrder {
  port: number;
  count: number;
}
export interface Seen {
  frames: number;
  /** Updates, and the milliseconds from a change to its reading at the few dashboards that parse what they read. */
  updatesSeen: number;
  lookers: number;
  delayP50: number;
  delayP99: number;
  /** The number of connections that the server has closed so far. */
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
    // The table defines the response to each command.
    order: (command, ask) => child.call(command, ask) as Promise<never>,
    stop: () => child.stop(),
  };
}
