import { LOAD_CORE, startProcess } from '../harness.ts';

/** The commands of a load process and their responses. Both ends are ours, so the types are the contract. */
export interface LoadCommands {
  /** Connects one agent per token with at most `atOnce` handshakes in progress. Resolves when all are connected. */
  connect: { ask: ConnectOrder; answer: { connected: number; ms: number } };
  /**
   * Keeps `inFlight` heartbeats in progress over all connections in turn: each response is followed by the next
   * heartbeat.
   */
  closedLoop: { ask: { seconds: number; inFlight: number }; answer: { roundTrips: number; seconds: number } };
  /** Sends heartbeats at a fixed rate, whether or not they are answered. */
  openLoop: { ask: { seconds: number; perSecond: number }; answer: Latencies };
  /** Every agent sends heartbeats at this interval, spread evenly, until the next such command; 0 stops them. */
  beatEvery: { ask: { ms: number }; answer: { beating: number } };
  /** Closes this many connections per second and reopens each half a second later, until the next such command. */
  flap: { ask: { perSecond: number }; answer: { flapped: number } };
  /**
   * Closes every connection at once; with `spreadMs` 0 all reconnect at the same moment. Resolves when all are
   * connected.
   */
  comeBack: { ask: { spreadMs: number }; answer: ComeBack };
  count: { ask: Record<string, never>; answer: { connected: number; commands: number; connections: number } };
  close: { ask: Record<string, never>; answer: { closed: number } };
}

export interface ConnectOrder {
  /** An agent of the hub, or a bare websocket whose server echoes. */
  kind: 'agent' | 'echo';
  port: number;
  /** Agent tokens; any text if the server does not check them. */
  tokens: string[];
  atOnce: number;
  /** Source addresses, used in turn, because one address has 28,000 ports to one server. */
  addresses: string[];
  /** Whether live queries are answered, with an empty list of logs or of entries, or only received. */
  answersAsks: boolean;
}

/** Milliseconds between writing a heartbeat and reading its response, and how late it was written. */
export interface Latencies {
  sent: number;
  answered: number;
  /** Heartbeats that were not sent because the previous one had no response yet. */
  skipped: number;
  p50: number;
  p99: number;
  p999: number;
  max: number;
  /** The delay of the load generator itself, which is not part of the response times. */
  loadLateP99: number;
}

export interface ComeBack {
  ms: number;
  /** How often an agent was told to retry later. */
  refusals: number;
  /** Connections that ended before the handshake was done, without a refusal. */
  failures: number;
}

export type LoadCommand = keyof LoadCommands;
/** One command, with a number that its response repeats. */
export type LoadOrder = {
  [C in LoadCommand]: { number: number; command: C; ask: LoadCommands[C]['ask'] };
}[LoadCommand];
export type LoadReply = { number: number } & ({ answer: unknown } | { error: string });

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
  /** An access token; any text if the server does not check it. */
  token?: string;
}
interface Seen {
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

interface Watchers {
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

export interface SignInOrder {
  url: string;
  /** E-mail addresses, used in turn, all with the same password. */
  people: string[];
  password: string;
  perSecond: number;
}

export interface SignInTimes {
  /** The duration of each sign-in in milliseconds. */
  times: number[];
  /** Responses other than 200, and missing responses. */
  refused: number;
}

export async function startSignIns() {
  const child = await startProcess('load/sign-ins.ts', { cores: LOAD_CORE });
  return {
    start: (order: SignInOrder) => child.call('start', order),
    finish: () => child.call('finish', {}) as Promise<SignInTimes>,
    stop: () => child.stop(),
  };
}
