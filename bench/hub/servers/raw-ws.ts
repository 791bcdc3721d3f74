import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';
import { answerMeasurements } from './measured.ts';

/** The lower bound: `ws` echoes each message without reading it. */

const http = createServer();
const server = new WebSocketServer({ server: http, perMessageDeflate: false, maxPayload: 1_000_000 });
server.on('connection', (socket) => {
  socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
});
answerMeasurements();
http.listen(0, '127.0.0.1', () => {
  process.send?.(`http://127.0.0.1:${(http.address() as AddressInfo).port}`);
});
process.once('disconnect', () => process.exit(0));
