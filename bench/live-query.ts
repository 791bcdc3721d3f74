import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server, type Socket } from 'socket.io';
import { io } from 'socket.io-client';
import { buildDevice, buildTenant } from '../test/support/factories.ts';
import { connectDevice } from '../test/support/fake-device.ts';
import { createTestApp } from '../test/support/test-app.ts';
import { stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:live-query` measures a live query without the time that the device itself needs: REST with sign-in
 * check, tenant transaction, hub, socket in both directions, parsing of 50 rows. The baseline in the same run is a
 * bare Socket.IO round trip of the same rows. Everything runs in one process, one query at a time.
 */

const WARM_UP = 100;
const ROUNDS = 1000;
const ROWS = 50;

const entry = (recordId: number) => ({
  recordId,
  timeCreated: '2026-11-20T10:00:00.000Z',
  level: 'error' as const,
  source: 'disk',
  eventId: 7,
  message: `The device has a bad block at 0x${recordId.toString(16)}.`,
  category: 'System',
  user: null,
  computer: 'DESK-1',
});
const rows = Array.from({ length: ROWS }, (_value, index) => entry(index));

const bare = await measureBare();
const query = await measureQuery();
await stopTestPostgres();

const table = { 'bare Socket.IO round trip': bare, 'live query without the device': query };
console.table(table);
console.log(
  JSON.stringify({
    unit: 'ms',
    rows: ROWS,
    rounds: ROUNDS,
    ...table,
    ratioP50: Number((query.p50 / bare.p50).toFixed(2)),
  }),
);

async function measureBare() {
  const http = createServer();
  const server = new Server(http, { transports: ['websocket'] });
  await new Promise<void>((resolve) => {
    http.listen(0, '127.0.0.1', resolve);
  });
  const connected = new Promise<Socket>((resolve) => server.once('connection', resolve));
  const client = io(`http://127.0.0.1:${(http.address() as AddressInfo).port}`, {
    transports: ['websocket'],
  });
  client.on('ask', (ack: (answer: unknown) => void) => ack(rows));
  const socket = await connected;
  const times = await rounds(async () => {
    const startedAt = performance.now();
    await socket.emitWithAck('ask');
    return performance.now() - startedAt;
  });
  client.disconnect();
  await server.close();
  return percentiles(times);
}

async function measureQuery() {
  const app = await createTestApp();
  const tenant = await buildTenant(app);
  const device = await buildDevice(app, tenant.orgId);
  const agent = await connectDevice(app, device.token);
  let deviceTime = 0;
  const answer = async () => {
    const frame = await agent.nextCommand();
    const receivedAt = performance.now();
    await agent.rows(frame, rows);
    deviceTime = performance.now() - receivedAt;
    await agent.succeed(frame, { scanned: ROWS, truncated: false });
  };
  const times = await rounds(async () => {
    const startedAt = performance.now();
    const answered = answer();
    const { status } = await app.call('GET', `/devices/${device.deviceId}/eventlogs/System/events`, {
      token: tenant.admin.token,
    });
    if (status !== 200) throw new Error(`The query was answered with ${status}.`);
    const took = performance.now() - startedAt;
    await answered;
    return took - deviceTime;
  });
  agent.close();
  await app.close();
  return percentiles(times);
}

async function rounds(one: () => Promise<number>): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < WARM_UP + ROUNDS; round++) {
    const time = await one();
    if (round >= WARM_UP) times.push(time);
  }
  return times;
}

function percentiles(times: number[]) {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number) => Number((sorted[Math.floor(share * (sorted.length - 1))] ?? 0).toFixed(2));
  return { p50: at(0.5), p99: at(0.99) };
}
