import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from 'socket.io';
import { changeSteadily, devicesOfOneOrganization } from './changes.ts';
import { answerMeasurements } from './measured.ts';

/** The baseline: every change goes at once to the room of all dashboards, `io.to(room).emit(…)`. */

const devices = devicesOfOneOrganization(Number(process.env['BENCH_DEVICES']));
const ROOM = 'organization';
const http = createServer();
const io = new Server(http, {
  path: '/hub',
  transports: ['websocket'],
  serveClient: false,
  perMessageDeflate: false,
  httpCompression: false,
});
const dashboards = io.of('/dashboard');
dashboards.on('connection', (socket) => {
  socket.on('devices:subscribe', (_filter: unknown, answer: (said: unknown) => void) => {
    void socket.join(ROOM);
    answer({ ok: true, devices });
  });
});
answerMeasurements({
  change: (order) =>
    changeSteadily(
      devices,
      order as { perSecond: number; seconds: number },
      (id, { isReporting: _isReporting, ...patch }) => {
        dashboards.to(ROOM).emit('devices:delta', { id, ...patch });
      },
    ),
});
http.listen(0, '127.0.0.1', () => {
  process.send?.(`http://127.0.0.1:${(http.address() as AddressInfo).port}`);
});
process.once('disconnect', () => process.exit(0));
