import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { Server, type Socket } from 'socket.io';
import type {
  CommandProgress,
  CommandResult,
  CommandRows,
  ErrorAck,
  Heartbeat,
  OkAck,
  Refusal,
  UpdateStatus,
  Upgrade,
} from '../../src/protocol/index.ts';

interface CommandOptions {
  id?: string;
  deadlineMs?: number;
  epoch?: number;
  secrets?: Record<string, string>;
  /** How long the agent's receipt is waited for. */
  receiptMs?: number;
}

/** A hub that does what the test says, for agents to connect to. */
export interface ScriptedHub {
  url: string;
  /** Sockets in the order they connected; ended ones stay. */
  sockets: Socket[];
  heartbeats: number[];
  lastHeartbeat: Heartbeat | undefined;
  rows: CommandRows[];
  progress: CommandProgress[];
  results: CommandResult[];
  /** What this hub's clock is ahead of the agent's, which is the agent's own clock being behind. */
  clockAheadMs: number;
  /** Turns the next handshakes away. */
  refuse: Refusal | undefined;
  refusals: number[];
  nextInMs: number;
  /** False: heartbeats get no answer. */
  answersHeartbeats: boolean;
  /** The answers to heartbeats wait for this. */
  heartbeatAnswer: Promise<void> | undefined;
  /** How many results are taken without an ack, as if it were lost. */
  forgetAcks: number;
  /** What came over plain HTTP as the inventory of a device. */
  inventories: unknown[];
  inventoryStatus: number;
  /** What each answer to a heartbeat offers. */
  upgrades: Upgrade[];
  /** Whether phases of upgrades are acknowledged. */
  takesStatuses: boolean;
  statuses: UpdateStatus[];
  /** Answers requests over HTTP that this hub does not know; `true` where it has. */
  answers: (request: IncomingMessage, response: ServerResponse, body: Buffer) => boolean;
  /** Refuses results with this code instead of taking them. */
  refuseResults: string | undefined;
  command(type: string, payload: unknown, options?: CommandOptions): Promise<string>;
  /** As `command`, but answers the agent's receipt. */
  receipt(type: string, payload: unknown, options?: CommandOptions): Promise<OkAck | ErrorAck>;
  cancel(id: string): Promise<OkAck | ErrorAck>;
  close(): Promise<void>;
}

export async function startScriptedHub(port = 0): Promise<ScriptedHub> {
  const http = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (hub.answers(request, response, Buffer.concat(chunks))) return;
      const isKnown = /^\/api\/v1\/agents\/[^/]+\/inventory$/.test(request.url ?? '');
      if (isKnown) hub.inventories.push(JSON.parse(gunzipSync(Buffer.concat(chunks)).toString()));
      response.writeHead(isKnown ? hub.inventoryStatus : 404, { 'content-type': 'application/json' });
      response.end(JSON.stringify(hub.inventoryStatus === 200 ? { ok: true } : { error: 'refused' }));
    });
  });
  const io = new Server(http, { path: '/hub', transports: ['websocket'] });
  const hub: ScriptedHub = {
    url: '',
    sockets: [],
    heartbeats: [],
    lastHeartbeat: undefined,
    rows: [],
    progress: [],
    results: [],
    clockAheadMs: 0,
    refuse: undefined,
    refusals: [],
    nextInMs: 60_000,
    answersHeartbeats: true,
    heartbeatAnswer: undefined,
    forgetAcks: 0,
    refuseResults: undefined,
    upgrades: [],
    takesStatuses: true,
    statuses: [],
    answers: () => false,
    inventories: [],
    inventoryStatus: 200,
    async command(type, payload, options = {}) {
      const id = options.id ?? `c${hub.results.length}-${Math.random()}`;
      await hub.receipt(type, payload, { ...options, id });
      return id;
    },
    async receipt(
      type,
      payload,
      { id = `c-${Math.random()}`, deadlineMs = 30_000, epoch = 7, secrets, receiptMs = 30_000 } = {},
    ) {
      const deadline = new Date(now() + deadlineMs).toISOString();
      const frame = { id, type, payload, epoch, attempt: 1, deadline, secrets };
      return (await hub.sockets.at(-1)!.timeout(receiptMs).emitWithAck('command', frame)) as OkAck | ErrorAck;
    },
    async cancel(id) {
      return (await hub.sockets.at(-1)!.timeout(30_000).emitWithAck('command:cancel', { id })) as
        | OkAck
        | ErrorAck;
    },
    async close() {
      await io.close();
    },
  };
  const now = () => Date.now() + hub.clockAheadMs;
  const agents = io.of('/agents');
  agents.use((_socket, next) => {
    if (hub.refuse === undefined) return next();
    hub.refusals.push(Date.now());
    next(Object.assign(new Error('refused'), { data: hub.refuse }));
  });
  agents.on('connection', (socket) => {
    hub.sockets.push(socket);
    socket.on('heartbeat', (message: Heartbeat, ack) => {
      hub.heartbeats.push(Date.now());
      hub.lastHeartbeat = message;
      const answer = () => {
        ack({ ok: true, at: new Date(now()).toISOString(), nextInMs: hub.nextInMs, upgrade: hub.upgrades });
      };
      if (!hub.answersHeartbeats) return;
      if (hub.heartbeatAnswer === undefined) answer();
      else void hub.heartbeatAnswer.then(answer);
    });
    socket.on('update:status', (status: UpdateStatus, ack) => {
      if (!hub.takesStatuses) return;
      hub.statuses.push(status);
      ack({ ok: true });
    });
    socket.on('command:rows', (rows: CommandRows, ack) => {
      hub.rows.push(rows);
      ack({ ok: true });
    });
    socket.on('command:progress', (progress: CommandProgress, ack) => {
      hub.progress.push(progress);
      ack({ ok: true });
    });
    socket.on('command:result', (result: CommandResult, ack) => {
      hub.results.push(result);
      if (hub.forgetAcks > 0) hub.forgetAcks -= 1;
      else if (hub.refuseResults !== undefined) {
        ack({ ok: false, error: { code: hub.refuseResults, message: 'refused' } });
      } else ack({ ok: true });
    });
  });
  await new Promise<void>((resolve) => {
    http.listen(port, '127.0.0.1', resolve);
  });
  hub.url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  return hub;
}
