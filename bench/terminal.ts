import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { WebSocket, WebSocketServer } from 'ws';
import { findProgram } from '../src/agent/os/child-process.ts';
import { systemTime } from '../src/clock.ts';
import type { TerminalOutput } from '../src/protocol/index.ts';
import { agentCommand, startAgent } from '../test/support/agent-program.ts';
import { connectDashboard } from '../test/support/dashboard-client.ts';
import { eventually } from '../test/support/eventually.ts';
import { buildDevice, buildEnrollmentKey, buildTenant, giveSecondFactor } from '../test/support/factories.ts';
import { connectDevice } from '../test/support/fake-device.ts';
import { createTestApp } from '../test/support/test-app.ts';
import { stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:terminal` measures the echo of a terminal: from the sending of a key by a dashboard's socket until its
 * echo is back, through the server and a real agent, which is a process of its own. The baseline, alternating in the same
 * run, is the same shell behind a bare websocket. Then it measures a flood: how much of it arrives, and how long the
 * heartbeats of other devices take meanwhile.
 */

const KEYS = 400;
const ROUNDS = 3;
const FLOOD_MS = 10_000;
const BYSTANDERS = 20;

const percentile = (times: number[], part: number) =>
  times.toSorted((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0;
const rounded = (value: number) => Math.round(value * 100) / 100;

interface Line {
  send(text: string): void;
  onText: (text: string) => void;
  close(): void;
}

/** Sends keys one by one; each waits for its echo. */
async function echoes(line: Line): Promise<number[]> {
  const times: number[] = [];
  for (let at = 0; at < KEYS; at++) {
    const key = String.fromCharCode(97 + (at % 26));
    const begun = performance.now();
    await new Promise<void>((resolve) => {
      line.onText = (text) => {
        if (text.includes(key)) resolve();
      };
      line.send(key);
    });
    times.push(performance.now() - begun);
    // As fast as a person types at most.
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return times;
}

/** The shell of the baseline, behind a websocket and nothing else. */
async function bareLine(): Promise<Line> {
  const script = (await findProgram(['script'])) ?? '';
  const http = createServer();
  const server = new WebSocketServer({ server: http, perMessageDeflate: false });
  server.on('connection', (socket) => {
    const child = spawn(script, ['-qfc', 'stty sane; exec cat', '/dev/null'], {
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    child.stdout.on('data', (bytes: Buffer) => socket.send(bytes.toString()));
    socket.on('message', (bytes: Buffer) => child.stdin.write(bytes));
    socket.on('close', () => child.kill());
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const socket = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`);
  await new Promise((resolve) => socket.once('open', resolve));
  const line: Line = {
    send: (text) => socket.send(text),
    onText: () => {},
    close() {
      socket.close();
      server.close();
      http.close();
    },
  };
  socket.on('message', (bytes: Buffer) => line.onText(bytes.toString()));
  await new Promise((resolve) => setTimeout(resolve, 1000));
  return line;
}

const app = await createTestApp();
const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-bench-terminal-'));
try {
  const tenant = await buildTenant(app);
  await giveSecondFactor(app, tenant.admin);
  await app.call('PUT', `/orgs/organizations/${tenant.orgId}/terminals`, {
    token: tenant.admin.token,
    body: { enabled: true },
  });
  const key = await buildEnrollmentKey(app, tenant.orgId);
  await agentCommand(['enroll', '--server', app.url, '--key', key, '--data-dir', dataDir]);
  const agent = startAgent(['run', '--data-dir', dataDir]);
  const { body } = await eventually(
    () => app.call('GET', '/devices', { token: tenant.admin.token }),
    (answer) => answer.body.data?.[0]?.presence.state === 'connected',
    60_000,
  );
  const deviceId: string = body.data[0].id;

  const dashboard = await connectDashboard(app, tenant.admin.token);
  let taken = 0;
  const line: Line = { send: () => {}, onText: () => {}, close: () => dashboard.close() };
  dashboard.socket.on('terminal:data', ({ offset, data }: TerminalOutput) => {
    taken = offset + data.length;
    line.onText(data);
  });
  const opened = await dashboard.send('terminal:open', { deviceId, cols: 80, rows: 24 });
  if (opened.ok !== true) throw new Error(JSON.stringify(opened));
  const { terminalId } = opened as { terminalId: string };
  line.send = (data) => dashboard.socket.emit('terminal:data', { terminalId, data, taken });
  line.send('exec cat\r');
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const bare = await bareLine();

  const ours: number[] = [];
  const plain: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    ours.push(...(await echoes(line)));
    line.send('\r');
    plain.push(...(await echoes(bare)));
    bare.send('\r');
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  bare.close();

  // A flood, which the client takes as fast as it comes.
  const flood = await dashboard.send('terminal:open', { deviceId, cols: 80, rows: 24 });
  const floodId = (flood as { terminalId: string }).terminalId;
  let floodTaken = 0;
  dashboard.socket.on('terminal:data', (output: TerminalOutput) => {
    if (output.terminalId !== floodId) return;
    floodTaken = output.offset + output.data.length;
  });
  const confirming = systemTime.setInterval(
    () => dashboard.socket.emit('terminal:data', { terminalId: floodId, taken: floodTaken }),
    20,
  );
  const devices = await Promise.all(
    Array.from({ length: BYSTANDERS }, async () =>
      connectDevice(app, (await buildDevice(app, tenant.orgId)).token),
    ),
  );
  const beats = async (ms: number) => {
    const times: number[] = [];
    const until = performance.now() + ms;
    while (performance.now() < until) {
      await Promise.all(
        devices.map(async (device) => {
          const begun = performance.now();
          await device.heartbeat();
          times.push(performance.now() - begun);
        }),
      );
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return times;
  };
  const quiet = await beats(FLOOD_MS / 2);
  const before = floodTaken;
  dashboard.socket.emit('terminal:data', { terminalId: floodId, data: 'cat /dev/zero | tr "\\\\0" x\r' });
  await new Promise((resolve) => setTimeout(resolve, 500));
  const memory = process.memoryUsage().rss;
  const flooded = await beats(FLOOD_MS);
  const grown = process.memoryUsage().rss - memory;
  systemTime.clear(confirming);

  console.log(
    JSON.stringify(
      {
        echoP50Ms: rounded(percentile(ours, 0.5)),
        echoP99Ms: rounded(percentile(ours, 0.99)),
        bareP50Ms: rounded(percentile(plain, 0.5)),
        bareP99Ms: rounded(percentile(plain, 0.99)),
        echoP99ToBare: rounded(percentile(ours, 0.99) / percentile(plain, 0.99)),
        beyondBareP99Ms: rounded(percentile(ours, 0.99) - percentile(plain, 0.99)),
        floodMBPerSecond: rounded((floodTaken - before) / 1e6 / (FLOOD_MS / 1000)),
        floodServerMemoryMB: rounded(grown / 1e6),
        heartbeatP99Ms: rounded(percentile(quiet, 0.99)),
        heartbeatP99InFloodMs: rounded(percentile(flooded, 0.99)),
      },
      undefined,
      2,
    ),
  );
  for (const device of devices) device.close();
  dashboard.close();
  agent.child.kill('SIGTERM');
  await agent.ended;
} finally {
  await app.close();
  await stopTestPostgres();
  await rm(dataDir, { recursive: true, force: true });
}
