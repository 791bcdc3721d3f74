import { io, type Socket } from 'socket.io-client';
import {
  COMMAND_TYPES,
  HUB_PATH,
  type CommandFrame,
  type HeartbeatAck,
  type HubReconnect,
  type MachineIdentity,
  type Refusal,
} from '../../src/protocol/index.ts';
import { eventually } from './eventually.ts';
import { DEFAULT_GRACE_MS, type TestApp } from './test-app.ts';

/** A scripted agent on a real socket: it says what the test tells it to, and remembers what it hears. */
export interface FakeDevice {
  socket: Socket;
  commands: CommandFrame[];
  cancelled: string[];
  notices: HubReconnect[];
  heartbeat(more?: object): Promise<HeartbeatAck>;
  /** Sends any event and answers its ack. */
  send(event: string, payload?: unknown): Promise<unknown>;
  /** The next command that has not been taken yet. */
  nextCommand(): Promise<CommandFrame>;
  rows(frame: CommandFrame, rows: unknown[], seq?: number): Promise<unknown>;
  succeed(frame: CommandFrame, output: unknown): Promise<unknown>;
  /** Sends a result as it stands. */
  finish(frame: Pick<CommandFrame, 'id' | 'epoch'>, result: object): Promise<unknown>;
  fail(frame: CommandFrame, code: string, message?: string): Promise<unknown>;
  close(): void;
}

interface Options {
  agentVersion?: string;
  capabilities?: string[];
  protocol?: number;
  /** Another value is another start of the agent program. */
  bootId?: string;
  /** What the agent says about its machine. */
  machine?: MachineIdentity;
  /** Of the request that becomes the websocket. */
  headers?: Record<string, string>;
  /** Such as the authority to trust, and the address to connect from. */
  connection?: { ca: string; localAddress: string };
  /** Answers the receipt of a command; by default it has it. */
  receipt?: (frame: CommandFrame) => object | undefined;
}

export class Refused extends Error {
  readonly refusal: Refusal | undefined;
  constructor(message: string, refusal: Refusal | undefined) {
    super(message);
    this.refusal = refusal;
  }
}

/** Connects, or rejects with `Refused`. */
export async function connectDevice(
  app: Pick<TestApp, 'url'>,
  token: string,
  options: Options = {},
): Promise<FakeDevice> {
  const {
    agentVersion = '1.0.0',
    capabilities = [...COMMAND_TYPES],
    protocol = 1,
    bootId = 'boot-1',
    machine = {},
    headers,
    connection = {},
    receipt = () => ({ ok: true }),
  } = options;
  const socket = io(`${app.url}/agents`, {
    path: HUB_PATH,
    transports: ['websocket'],
    reconnection: false,
    forceNew: true,
    ...connection,
    ...(headers === undefined ? {} : { extraHeaders: headers }),
    auth: { token, protocol, agentVersion, capabilities, bootId, ...machine },
  });
  const commands: CommandFrame[] = [];
  const cancelled: string[] = [];
  const notices: HubReconnect[] = [];
  const waiting: ((frame: CommandFrame) => void)[] = [];
  socket.on('command', (frame: CommandFrame, ack: (answer: unknown) => void) => {
    const answer = receipt(frame);
    if (answer !== undefined) ack(answer);
    const waiter = waiting.shift();
    if (waiter === undefined) commands.push(frame);
    else waiter(frame);
  });
  socket.on('command:cancel', ({ id }: { id: string }, ack: (answer: unknown) => void) => {
    cancelled.push(id);
    ack({ ok: true });
  });
  socket.on('hub:reconnect', (notice: HubReconnect, ack: (answer: unknown) => void) => {
    notices.push(notice);
    ack({ ok: true });
  });
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('connect_error', (error: Error & { data?: Refusal }) => {
      socket.close();
      reject(new Refused(error.message, error.data));
    });
  });

  const send = (event: string, payload?: unknown): Promise<unknown> =>
    socket.timeout(30_000).emitWithAck(event, payload);
  const finish = (frame: Pick<CommandFrame, 'id' | 'epoch'>, result: object) =>
    send('command:result', {
      id: frame.id,
      epoch: frame.epoch,
      startedAt: new Date().toISOString(),
      finishedAt: new Date().toISOString(),
      ...result,
    });
  return {
    socket,
    commands,
    cancelled,
    notices,
    send,
    heartbeat: (more = {}) =>
      send('heartbeat', { at: new Date().toISOString(), agentVersion, ...more }) as Promise<HeartbeatAck>,
    nextCommand: () => {
      const ready = commands.shift();
      return ready === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(ready);
    },
    rows: (frame, rows, seq = 0) => send('command:rows', { id: frame.id, seq, rows, done: false }),
    finish,
    succeed: (frame, output) => finish(frame, { status: 'succeeded', output }),
    fail: (frame, code, message = 'It failed.') =>
      finish(frame, { status: 'failed', error: { code, message } }),
    close: () => void socket.disconnect(),
  };
}

/** Resolves when the server has noticed that the connection of the device has ended, and its time to come back is over. */
export async function graceOver(
  app: Pick<TestApp, 'server' | 'advance'>,
  deviceId: string,
  graceMs = DEFAULT_GRACE_MS,
): Promise<void> {
  await eventually(
    () => app.server.hub.live(deviceId)?.isConnected,
    (isConnected) => isConnected !== true,
  );
  await app.advance(graceMs);
}
