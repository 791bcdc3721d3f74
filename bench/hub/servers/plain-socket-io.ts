import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from 'socket.io';
import { answerMeasurements } from './measured.ts';

/** The baseline: stock Socket.IO with the hub's settings and a handler that only acknowledges. */

const http = createServer();
const io = new Server(http, {
  path: '/hub',
  transports: ['websocket'],
  serveClient: false,
  perMessageDeflate: false,
  httpCompression: false,
  maxHttpBufferSize: 1_000_000,
  connectTimeout: 8000,
  pingInterval: 25_000,
  pingTimeout: 20_000,
});
io.of('/agents').on('connection', (socket) => {
  socket.on('heartbeat', (_message: unknown, answer: (said: unknown) => void) => {
    answer({ ok: true, at: '2026-11-20T10:00:00.000Z', nextInMs: 60_000, upgrade: [] });
  });
});
answerMeasurements();
http.listen(0, '127.0.0.1', () => {
  process.send?.(`http://127.0.0.1:${(http.address() as AddressInfo).port}`);
});
process.once('disconnect', () => process.exit(0));
