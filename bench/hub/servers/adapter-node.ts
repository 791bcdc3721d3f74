import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdapter, createShardedAdapter } from '@socket.io/redis-adapter';
import { Redis } from 'ioredis';
import { Server } from 'socket.io';
import { answersFor } from './asking.ts';
import { answerMeasurements } from './measured.ts';

/**
 * The baseline: Socket.IO with its official Redis adapter in its best configuration. Each device has its own room and
 * is queried as the documentation shows: `io.to(room).timeout(ms).emitWithAck(…)`.
 */

const { BENCH_REDIS_URL = '', BENCH_ADAPTER = 'classic' } = process.env;
const TIMEOUT_MS = 5000;

const pub = new Redis(BENCH_REDIS_URL);
const sub = pub.duplicate();
const http = createServer();
const io = new Server(http, {
  path: '/hub',
  transports: ['websocket'],
  serveClient: false,
  perMessageDeflate: false,
  httpCompression: false,
  maxHttpBufferSize: 1_000_000,
  adapter:
    BENCH_ADAPTER === 'sharded'
      ? createShardedAdapter(pub, sub)
      : createAdapter(pub, sub, {
          publishOnSpecificResponseChannel: true,
          requestsTimeout: TIMEOUT_MS,
        }),
});
const agents = io.of('/agents');
agents.on('connection', (socket) => {
  const { token } = socket.handshake.auth as { token: string };
  void socket.join(`device:${token}`);
});

let count = 0;
answerMeasurements(
  answersFor(async (deviceId) => {
    const frame = {
      id: `0198f7a2-5b1c-7c3e-9a51-${String(++count).padStart(12, '0')}`,
      type: 'eventlogs.list',
      payload: {},
      epoch: 1,
      deadline: new Date(Date.now() + TIMEOUT_MS).toISOString(),
      attempt: 1,
    };
    try {
      const answers: unknown[] = await agents
        .to(`device:${deviceId}`)
        .timeout(TIMEOUT_MS)
        .emitWithAck('command', frame);
      return answers.length === 1 ? 'answered' : 'offline';
    } catch {
      return 'timeout';
    }
  }),
);
http.listen(0, '127.0.0.1', () => {
  process.send?.(`http://127.0.0.1:${(http.address() as AddressInfo).port}`);
});
process.once('disconnect', () => process.exit(0));
