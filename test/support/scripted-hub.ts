import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server, type Socket } from 'socket.io';
import type { CommandResult, CommandRows, Refusal } from '../../src/protocol/index.ts';

/** A hub that does what the test says, for agents to connect to. */
export interface ScriptedHub {
  url: string;
  /** Sockets in the order they connected; ended ones stay. */
  sockets: Socket[];
  heartbeats: number[];
  rows: CommandRows[];
  results: CommandResult[];
  /** Turns the next handshakes away. */
  refuse: Refusal | undefined;
  refusals: number[];
  nextInMs: number;
  /** False: heartbeats get no answer. */
  answersHeartbeats: boolean;
  /** How many results are taken without an ack, as if it were lost. */
  forgetAcks: number;
  command(type: string, payload: unknown, options?: { id?: string; deadlineMs?: number }): Promise<string>;
  close(): Promise<void>;
}

export async function startScriptedHub(port = 0): Promise<ScriptedHub> {
  const http = createServer();
  const io = new Server(http, { path: '/hub', transports: ['websocket'] });
  const hub: ScriptedHub = {
    url: '',
    sockets: [],
    heartbeats: [],
    rows: [],
    results: [],
    refuse: undefined,
    refusals: [],
    nextInMs: 60_000,
    answersHeartbeats: true,
    forgetAcks: 0,
    async command(
      type,
      payload,
      { id = `c${hub.results.length}-${Math.random()}`, deadlineMs = 30_000 } = {},
    ) {
      const frame = {
        id,
        type,
        payload,
        epoch: 7,
        attempt: 1,
        deadline: new Date(Date.now() + deadlineMs).toISOString(),
      };
      await hub.sockets.at(-1)!.timeout(2000).emitWithAck('command', frame);
      return id;
    },
    async close() {
      await io.close();
    },
  };
  const agents = io.of('/agents');
  agents.use((_socket, next) => {
    if (hub.refuse === undefined) return next();
    hub.refusals.push(Date.now());
    next(Object.assign(new Error('refused'), { data: hub.refuse }));
  });
  agents.on('connection', (socket) => {
    hub.sockets.push(socket);
    socket.on('heartbeat', (_message, ack) => {
      hub.heartbeats.push(Date.now());
      if (hub.answersHeartbeats) {
        ack({ ok: true, at: new Date().toISOString(), nextInMs: hub.nextInMs, upgrade: [] });
      }
    });
    socket.on('command:rows', (rows: CommandRows, ack) => {
      hub.rows.push(rows);
      ack({ ok: true });
    });
    socket.on('command:result', (result: CommandResult, ack) => {
      hub.results.push(result);
      if (hub.forgetAcks > 0) hub.forgetAcks -= 1;
      else ack({ ok: true });
    });
  });
  await new Promise<void>((resolve) => {
    http.listen(port, '127.0.0.1', resolve);
  });
  hub.url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  return hub;
}
