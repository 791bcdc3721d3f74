import type {
  AgentHandshake,
  CommandFrame,
  Heartbeat,
  HeartbeatAck,
  MachineIdentity,
} from '../../../protocol/index.ts';
import type { Network } from '../../os/network/network.ts';
import type { Tokens } from '../enrollment/tokens.ts';
import type { ServerClock } from '../server/server-clock.ts';
import type { AnswerChannel, SendStatus } from './answer-channel.ts';
import type { ConnectionState } from './connection-state.ts';

/** Runs the live queries of the server. They end with the connection. */
export interface LiveQueries {
  run(frame: CommandFrame, channel: AnswerChannel): Promise<void>;
  cancel(id: string): void;
  cancelAll(): void;
}

/** Carries out the commands of the server's ledger, over however many connections that takes. */
export interface DurableCommands {
  /** Resolves when the command is on disk. Rejects with `AgentError` where the agent does not accept it. */
  accept(frame: CommandFrame): Promise<void>;
  /** Resolves when the cancellation outlives a restart. */
  cancel(id: string): Promise<void>;
  attach(channel: AnswerChannel): void;
  detach(): void;
}

export interface ConnectionOptions {
  server: string;
  network: Network;
  /** The path of the hub on the server, where it is not the default one. */
  hubPath?: string;
  tokens: Tokens;
  deviceId: string;
  handshake: Omit<AgentHandshake, 'protocol' | 'token' | keyof MachineIdentity>;
  /** What identifies the machine, read for each connection. */
  machine?: () => Promise<MachineIdentity>;
  queries: LiveQueries;
  /** The connection neither starts nor stops it. */
  durable: DurableCommands;
  serverClock: ServerClock;
  heartbeat: () => Promise<Heartbeat>;
  /** Called with each answer to a heartbeat: offered upgrades, changed configuration. Must not throw. */
  onHeartbeatAck?: (answer: HeartbeatAck) => void;
  onState: (state: ConnectionState) => void;
  /** Called with each new connection; what it is given works until the connection ends. */
  onConnected?: (sendStatus: SendStatus) => void;
  /** A heartbeat is due after so long at the latest, whatever the server asks for; `undefined`: as the server asks. */
  beatAtMostMs?: () => number | undefined;
  /** For tests: a number from 0 to 1. */
  random?: () => number;
  /** How long the hub may take to acknowledge a message (default 10 s). */
  ackMs?: number;
  /** How long the socket has to fail before heartbeats are sent over HTTP (default 30 s, varied by half of it). */
  httpAfterMs?: number;
}
