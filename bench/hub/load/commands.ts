/** What a load process can be told to do, and what it answers. Both ends are ours, so the types are the contract. */
export interface LoadCommands {
  /** Connects one agent for each token, at most `atOnce` handshakes being under way. Answers when all are in. */
  connect: { ask: ConnectOrder; answer: { connected: number; ms: number } };
  /** Each of `inFlight` heartbeats is followed by the next as soon as it is answered, over all connections in turn. */
  closedLoop: { ask: { seconds: number; inFlight: number }; answer: { roundTrips: number; seconds: number } };
  /** Heartbeats at a fixed pace, whether or not they are answered. */
  openLoop: { ask: { seconds: number; perSecond: number }; answer: Latencies };
  /** Every agent sends its heartbeats so far apart, spread evenly, until told otherwise; 0 ends that. */
  beatEvery: { ask: { ms: number }; answer: { beating: number } };
  /** Ends so many connections a second and has each come back half a second later, until told otherwise. */
  flap: { ask: { perSecond: number }; answer: { flapped: number } };
  /** Ends every connection at once; with `spreadMs` 0 all come back in the same moment. Answers when all are in. */
  comeBack: { ask: { spreadMs: number }; answer: ComeBack };
  count: { ask: Record<string, never>; answer: { connected: number; commands: number; connections: number } };
  close: { ask: Record<string, never>; answer: { closed: number } };
}

export interface ConnectOrder {
  /** An agent of the hub, or a bare websocket whose server echoes. */
  kind: 'agent' | 'echo';
  port: number;
  /** Agent tokens; where the server does not look, any text. */
  tokens: string[];
  atOnce: number;
  /** Source addresses, taken in turn: one of them has 28,000 ports to one server. */
  addresses: string[];
  /** Live questions are answered with an empty list of logs, or only received. */
  answersAsks: boolean;
}

/** Milliseconds between writing a heartbeat and reading its answer, and how late the writing was. */
export interface Latencies {
  sent: number;
  answered: number;
  /** Heartbeats that were not sent because the one before had no answer yet. */
  skipped: number;
  p50: number;
  p99: number;
  p999: number;
  max: number;
  /** How late the load itself was, which is in nobody's answer time. */
  loadLateP99: number;
}

export interface ComeBack {
  ms: number;
  /** Times an agent was told to try later. */
  refusals: number;
  /** Connections that ended before the agent was in, without a refusal. */
  failures: number;
}

export type LoadCommand = keyof LoadCommands;
/** One order with a number that its answer carries. */
export type LoadOrder = {
  [C in LoadCommand]: { number: number; command: C; ask: LoadCommands[C]['ask'] };
}[LoadCommand];
export type LoadReply = { number: number } & ({ answer: unknown } | { error: string });
