import { appendFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { environmentNetwork } from '../../../../../src/agent/os/network/network.ts';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { openDeviceFolder } from '../../../../../src/agent/core/remove-data.ts';
import { textReader } from '../../../../../src/agent/capabilities/event-logs/text/text-reader.ts';
import { ServerClock } from '../../../../../src/agent/core/server-clock.ts';
import {
  LogShipping,
  type LogShippingOptions,
} from '../../../../../src/agent/capabilities/log-shipping/log-shipping.ts';
import { fixedToken } from '../../../../../src/agent/core/tokens.ts';
import { type DeviceEvent, DiagnosticBatch, EventBatch } from '../../../../../src/protocol/index.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../../../support/factories.ts';
import { createTestApp } from '../../../../support/test-app.ts';
import { useTestClock } from '../../../../support/use-test-clock.ts';

const CONNECTED = { state: 'connected', since: '2026-01-01T00:00:00.000Z', lastHeartbeatAt: null } as const;

describe('shipping of logs', () => {
  const testClock = useTestClock();
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-shipping-'));
  });
  afterEach(async () => rm(folder, { recursive: true, force: true }));

  /** Waits for something while time passes quickly for the agent. */
  const inTime = <T>(read: () => Promise<T> | T, fits: (value: T) => boolean) =>
    eventually(async () => {
      await testClock.advance(100);
      return read();
    }, fits);

  describe('from a machine to a server', () => {
    let running: LogShipping[] = [];
    let server: Server | undefined;
    afterEach(async () => {
      await Promise.all(running.map(async (one) => one.stop()));
      running = [];
      server?.closeAllConnections();
      server?.close();
      server = undefined;
    });

    /** That time, and a moment for what the network and the disk still do, which have no clock. */
    const passes = async (ms: number) => {
      await testClock.advance(ms);
      await new Promise((resolve) => setTimeout(resolve, 20));
    };

    /** A server that takes what it is told to. */
    async function serve(answerTo: (call: number) => { status: number; body?: object; after?: number }) {
      const calls: { method: string; url: string; body: Record<string, unknown[]> }[] = [];
      const listening = createServer((request, response) => {
        const chunks: Buffer[] = [];
        request.on('data', (chunk: Buffer) => chunks.push(chunk));
        request.on('end', () => {
          const { method = '', url = '' } = request;
          calls.push({ method, url, body: JSON.parse(Buffer.concat(chunks).toString()) });
          const { status, body = {}, after } = answerTo(calls.length);
          response.writeHead(status, {
            'content-type': 'application/json',
            ...(after === undefined ? {} : { 'retry-after': String(after) }),
          });
          response.end(JSON.stringify(body));
        });
      });
      server = listening;
      await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
      return { url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}`, calls };
    }

    async function ship({
      server: at,
      ...more
    }: Partial<LogShippingOptions> & { server: string }): Promise<LogShipping> {
      const shipping = new LogShipping({
        access: { server: at, network: environmentNetwork({}) },
        deviceId: 'device-1',
        folder: path.join(folder, 'shipping'),
        tokens: fixedToken('t'),
        reader: textReader({ root: folder }),
        serverClock: new ServerClock(),
        warn() {},
        logs: ['syslog'],
        everyMs: 50,
        spreadMs: 0,
        bufferMs: 10,
        random: () => 0,
        ...more,
      });
      running.push(shipping);
      await shipping.start();
      return shipping;
    }

    const syslogLine = (message: string, at = new Date()) => `${at.toISOString()} desk app[7]: ${message}\n`;

    it('sends records that waited during an outage once and in order', async () => {
      const { url, calls } = await serve(() => ({ status: 200 }));
      const syslog = path.join(folder, 'syslog');
      await writeFile(syslog, syslogLine('error: first') + syslogLine('all is well'));
      const shipping = await ship({ server: url, reader: textReader({ root: folder }) });
      shipping.log('warn', 'agent', 'by itself');
      await inTime(
        () => readdir(path.join(folder, 'shipping/events')),
        (files) => files.length > 0,
      );
      await appendFile(syslog, syslogLine('error: second') + syslogLine('error: third'));
      await passes(2000);
      expect(calls).to.deep.equal([]);

      shipping.onState(CONNECTED);
      const sent = (kind: 'events' | 'logs') => calls.flatMap(({ body }) => body[kind] ?? []).length;
      await inTime(
        () => sent('events') >= 3 && sent('logs') >= 2,
        (isAll) => isAll,
      );
      await passes(2000);
      const events = calls.flatMap(({ body }) => body['events'] ?? []) as DeviceEvent[];
      expect(events.map(({ message }) => message)).to.deep.equal([
        'error: first',
        'error: second',
        'error: third',
      ]);
      for (const { method, url: at, body } of calls) {
        if (method === 'PUT') expect(EventBatch.safeParse(body).success, at).to.equal(true);
        else expect(DiagnosticBatch.safeParse(body).success, at).to.equal(true);
      }
      const lines = calls.flatMap(({ body }) => body['logs'] ?? []) as { message: string }[];
      expect(lines.map(({ message }) => message)).to.deep.equal([
        'by itself',
        `connected since ${CONNECTED.since}`,
      ]);
    });

    it('loses nothing by temporary refusals, and drops only the record that is invalid', async () => {
      const answers = [
        { status: 503 },
        { status: 429 },
        { status: 400, body: { details: [{ path: 'body.logs.1.message' }] } },
      ];
      const { url, calls } = await serve((call) => answers[call - 1] ?? { status: 201 });
      const shipping = await ship({ server: url });
      for (const message of ['a', 'b', 'c']) shipping.log('info', 'agent', message);
      shipping.onState(CONNECTED);
      await inTime(
        () => calls.length,
        (count) => count >= 4,
      );
      const told = calls.map(({ body }) =>
        (body['logs'] as { message: string }[]).map(({ message }) => message).join(''),
      );
      expect(told[0]).to.equal(told[1]);
      expect(told.at(-1)).to.match(/^ac/).and.not.contain('b');
      await inTime(
        () => readdir(path.join(folder, 'shipping/lines')),
        (files) => files.length === 0,
      );
    });

    it('waits as long as the server asks it to', async () => {
      const { url, calls } = await serve(() => ({ status: 503, after: 60 }));
      const shipping = await ship({ server: url, everyMs: 3_600_000 });
      shipping.log('info', 'agent', 'a');
      shipping.onState(CONNECTED);
      await inTime(
        () => calls.length,
        (count) => count === 1,
      );
      for (let i = 0; i < 10; i++) {
        shipping.log('info', 'agent', `b${i}`);
        await passes(5000);
      }
      expect(calls).to.have.length(1);
      await passes(10_000);
      await inTime(
        () => calls.length,
        (count) => count === 2,
      );
    });

    it('does not send the records of one device as another', async () => {
      const { url, calls } = await serve(() => ({ status: 201 }));
      const folderOf = async (deviceId: string) =>
        path.join(await openDeviceFolder(folder, { server: url, deviceId }), 'shipping');
      const first = await ship({ server: url, folder: await folderOf('device-1') });
      first.log('info', 'agent', 'of the first');
      await first.stop();
      const second = await ship({
        server: url,
        deviceId: 'device-2',
        folder: await folderOf('device-2'),
      });
      second.log('info', 'agent', 'of the second');
      second.onState(CONNECTED);
      await inTime(
        () => calls.length,
        (count) => count >= 1,
      );
      expect(JSON.stringify(calls)).to.contain('of the second').and.not.contain('of the first');
      const devices = await readdir(path.join(folder, 'devices'));
      expect(devices.map((name) => name.split('-').slice(0, 2).join('-'))).to.deep.equal(['device-2']);
    });

    it('reports once that its folder cannot be written to, and the agent continues', async () => {
      await writeFile(path.join(folder, 'shipping'), 'a file');
      const warnings: string[] = [];
      const shipping = await ship({
        server: 'http://127.0.0.1:1',
        warn: (message) => warnings.push(message),
      });
      shipping.log('info', 'agent', 'a');
      shipping.onState(CONNECTED);
      await shipping.stop();
      expect(warnings).to.have.length(1);
      expect(await readFile(path.join(folder, 'shipping'), 'utf8')).to.equal('a file');
    });

    it('delivers entries that can be read on the server', async () => {
      const app = await createTestApp();
      try {
        const tenant = await buildTenant(app);
        const device = await buildDevice(app, tenant.orgId);
        await writeFile(
          path.join(folder, 'syslog'),
          syslogLine('error: the disk is full') + syslogLine('fine'),
        );
        const shipping = await ship({
          server: app.url,
          deviceId: device.deviceId,
          tokens: fixedToken(device.token),
          reader: textReader({ root: folder }),
        });
        shipping.onState(CONNECTED);
        const read = async (what: string) =>
          (await app.call('GET', `/devices/${device.deviceId}/${what}`, { token: tenant.admin.token })).body;
        const events = await inTime(
          async () => read('eventlogs'),
          ({ data }) => data.length > 0,
        );
        expect(events.data).to.have.length(1);
        expect(events.data[0]).to.include({
          level: 'error',
          source: 'app',
          message: 'error: the disk is full',
        });
        expect(events.data[0].details).to.include({ log: 'syslog' });
        const lines = await inTime(
          async () => read('diagnostic-logs'),
          ({ logs }) => logs.length > 0,
        );
        expect(lines.logs[0]).to.include({ component: 'connection', level: 'info' });
      } finally {
        await app.close();
      }
    });
  });
});
