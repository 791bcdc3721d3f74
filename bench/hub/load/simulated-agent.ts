import {
  type Heartbeat,
  AGENT_QUERY,
  COMMAND_TYPES,
  HUB_PATH,
  Refusal,
} from '../../../src/protocol/index.ts';
import { textFrame, type Target, WebSocketClient, type WebSocketEvents } from './web-socket.ts';

/** The heartbeat of a Windows agent, 431 bytes of JSON, used in every figure. */
const HEARTBEAT: Heartbeat = {
  at: '2026-11-20T10:00:00.000Z',
  agentVersion: '1.4.2',
  watchdogVersion: '1.4.2',
  osVersion: 'Microsoft Windows 11 Enterprise 10.0.26100',
  osBuild: '26100.2314',
  uptimeSeconds: 11_086_412,
  metrics: { cpuPercent: 12.5, ramPercent: 61.25, diskPercent: 48.75 },
  ipAddresses: ['10.20.130.140', '192.168.178.121', 'fe80::1c2d:3e4f:5a6b:7c8d', '2001:db8::8a2e:370:7334'],
  lastUser: 'CONTOSO\\jane.doe',
  pendingReboot: false,
  autoUpdate: true,
};

const HEARTBEAT_JSON = JSON.stringify(HEARTBEAT);

/** The events that an agent reports to its fleet. */
export interface AgentEvents {
  connected(agent: SimulatedAgent): void;
  /** The response to its heartbeat arrived. */
  answered(agent: SimulatedAgent): void;
  refused(agent: SimulatedAgent, refusal: Refusal): void;
  /** The connection ended, from either side. */
  closed(agent: SimulatedAgent): void;
  /** A live query arrived. */
  asked(agent: SimulatedAgent): void;
}

interface AgentSettings {
  kind: 'agent' | 'echo';
  port: number;
  answersAsks: boolean;
}

const NAMESPACE = '/agents,';
const AGENT_MARK = new URLSearchParams(AGENT_QUERY).toString();
/** An agent has one heartbeat in progress at a time, so all heartbeats have the same number and share one frame. */
const HEARTBEAT_FRAME = textFrame(`42${NAMESPACE}1["heartbeat",${HEARTBEAT_JSON}]`);
const ECHO_FRAME = textFrame(HEARTBEAT_JSON);
const PONG_FRAME = textFrame('3');
const DIGIT = { ping: 0x32, message: 0x34, open: 0x30, event: 0x32, ack: 0x33, refusal: 0x34 } as const;
/** Anything else is not a valid response. */
const HEARTBEAT_ACK = Buffer.from(`43${NAMESPACE}1[{"ok":true`);

/** A hand-written client for the parts of Engine.IO and Socket.IO that an agent uses. */
export class SimulatedAgent {
  readonly token: string;
  readonly address: string;
  isConnected = false;
  /** When its heartbeat was written; 0 if none is in progress. */
  sentAt = 0;
  #socket: WebSocketClient | undefined;
  readonly #settings: AgentSettings;
  readonly #tell: AgentEvents;

  constructor(options: { token: string; address: string; settings: AgentSettings; tell: AgentEvents }) {
    this.token = options.token;
    this.address = options.address;
    this.#settings = options.settings;
    this.#tell = options.tell;
  }

  connect(): void {
    const { kind, port } = this.#settings;
    const path = kind === 'echo' ? '/' : `${HUB_PATH}/?${AGENT_MARK}&EIO=4&transport=websocket`;
    const target: Target = { port, path };
    this.#socket = new WebSocketClient(target, this.address, this.#events);
  }

  heartbeat(now: number): void {
    this.sentAt = now;
    this.#socket?.send(this.#settings.kind === 'echo' ? ECHO_FRAME : HEARTBEAT_FRAME);
  }

  /** Closes the connection, which is reported as `closed`. */
  drop(): void {
    this.#socket?.end();
  }

  readonly #events: WebSocketEvents<WebSocketClient> = {
    opened: () => {
      if (this.#settings.kind === 'echo') this.#nowConnected();
    },
    refused: (_socket, refusal) => this.#tell.refused(this, refusal),
    text: (socket, bytes, start, end) => {
      if (this.#settings.kind === 'echo') return this.#answered();
      this.#packet(socket, bytes, start, end);
    },
    closed: () => {
      this.isConnected = false;
      this.sentAt = 0;
      this.#socket = undefined;
      this.#tell.closed(this);
    },
  };

  #packet(socket: WebSocketClient, bytes: Buffer, start: number, end: number): void {
    switch (bytes[start]) {
      case DIGIT.ping:
        return socket.send(PONG_FRAME);
      case DIGIT.open:
        return socket.send(textFrame(`40${NAMESPACE}${this.#handshake()}`));
      case DIGIT.message:
        break;
      default:
        return;
    }
    switch (bytes[start + 1]) {
      case DIGIT.ack:
        // Receipts of results are responses too, but have another number.
        if (
          bytes.compare(HEARTBEAT_ACK, 0, HEARTBEAT_ACK.length, start, start + HEARTBEAT_ACK.length) === 0
        ) {
          this.#answered();
        }
        return;
      case DIGIT.event:
        return this.#event(socket, bytes.toString('utf8', start + 2 + NAMESPACE.length, end));
      case DIGIT.open:
        return this.#nowConnected();
      case DIGIT.refusal: {
        const { data } = JSON.parse(bytes.toString('utf8', start + 2 + NAMESPACE.length, end)) as {
          data: unknown;
        };
        this.#tell.refused(this, Refusal.parse(data));
        return;
      }
      default:
    }
  }

  #event(socket: WebSocketClient, text: string): void {
    const at = text.indexOf('[');
    const [name, frame] = JSON.parse(text.slice(at)) as [string, { id: string; epoch: number; type: string }];
    if (at > 0) socket.send(textFrame(`43${NAMESPACE}${text.slice(0, at)}[{"ok":true}]`));
    if (name !== 'command') return;
    this.#tell.asked(this);
    if (!this.#settings.answersAsks) return;
    const now = new Date().toISOString();
    const result = {
      id: frame.id,
      epoch: frame.epoch,
      status: 'succeeded',
      output: frame.type === 'eventlogs.query' ? { scanned: 1000, truncated: false } : { logs: [] },
      startedAt: now,
      finishedAt: now,
    };
    socket.send(textFrame(`42${NAMESPACE}2["command:result",${JSON.stringify(result)}]`));
  }

  #handshake(): string {
    return JSON.stringify({
      token: this.token,
      protocol: 1,
      agentVersion: '1.4.2',
      capabilities: COMMAND_TYPES,
      bootId: '0198f7a2-5b1c-7c3e-9a51-3f0c4f1f2b6d',
    });
  }

  #nowConnected(): void {
    this.isConnected = true;
    this.#tell.connected(this);
  }

  #answered(): void {
    this.#tell.answered(this);
    this.sentAt = 0;
  }
}
