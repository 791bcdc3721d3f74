import { appendFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { logNotFound } from '../../../../../src/agent/core/agent-error.ts';
import { uploadVerdict } from '../../../../../src/agent/core/server-call.ts';
import {
  deviceEvent,
  type LogSource,
  MachineEvents,
  markAfter,
  shippedLogs,
} from '../../../../../src/agent/capabilities/log-shipping/machine-events.ts';
import { Spool } from '../../../../../src/agent/capabilities/log-shipping/spool.ts';
import { DeviceEvent, LOG_MESSAGE_MAX, type LogEntry } from '../../../../../src/protocol/index.ts';

let made = 0;
const entry = (more: Partial<LogEntry> = {}): LogEntry => ({
  recordId: ++made,
  timeCreated: new Date().toISOString(),
  level: 'error',
  source: 'sshd',
  eventId: 0,
  message: 'It failed.',
  category: 'auth',
  user: null,
  computer: 'desk',
  ...more,
});

describe('the parts of log shipping', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-shipping-'));
  });
  afterEach(async () => rm(folder, { recursive: true, force: true }));

  describe('a spool', () => {
    const open = async (more: object = {}) => {
      const lost: number[] = [];
      const spool = new Spool({ folder, maxBytes: 1e6, onLost: (files) => lost.push(files), ...more });
      await spool.open();
      return { spool, lost };
    };
    const drain = async (spool: Spool) => {
      const batches: unknown[][] = [];
      for (let batch = await spool.oldest(); batch !== undefined; batch = await spool.oldest()) {
        batches.push(batch.records);
        await spool.remove(batch);
      }
      return batches;
    };

    it('returns batches of limited size, in the order of their records', async () => {
      const { spool } = await open();
      const records = Array.from({ length: 250 }, (_, n) => ({ n }));
      for (let from = 0; from < 250; from += 10) await spool.add(records.slice(from, from + 10));
      const batches = await drain(spool);
      expect(batches.map(({ length }) => length)).to.deep.equal([100, 100, 50]);
      expect(batches.flat()).to.deep.equal(records);
      expect(await readdir(folder)).to.deep.equal([]);
      await spool.add([{ long: 'x'.repeat(200_000) }, { long: 'y'.repeat(200_000) }]);
      expect((await drain(spool)).map(({ length }) => length)).to.deep.equal([1, 1]);
    });

    it('keeps a batch until it is removed, and does not append to it meanwhile', async () => {
      const { spool } = await open();
      await spool.add([1]);
      const first = await spool.oldest();
      await spool.add([2]);
      expect((await spool.oldest())?.records).to.deep.equal([1]);
      await spool.remove(first!);
      expect((await spool.oldest())?.records).to.deep.equal([2]);
    });

    it('survives a restart of the agent and a line that was cut off', async () => {
      const { spool } = await open();
      await spool.add([{ n: 1 }, { n: 2 }]);
      const [file] = await readdir(folder);
      await appendFile(path.join(folder, file!), '{"n":3');
      const again = await open();
      await again.spool.add([{ n: 4 }]);
      expect(await drain(again.spool)).to.deep.equal([[{ n: 1 }, { n: 2 }], [{ n: 4 }]]);
    });

    it('drops the oldest records when it is full, and reports that', async () => {
      const { spool, lost } = await open({ maxBytes: 10_000 });
      for (let n = 0; n < 400; n++) await spool.add([{ n, text: 'x'.repeat(40) }]);
      expect(spool.bytes).to.be.at.most(10_000);
      expect(lost.length).to.be.greaterThan(0);
      const left = (await drain(spool)).flat() as { n: number }[];
      expect(left.at(-1)?.n).to.equal(399);
      expect(left[0]?.n).to.be.greaterThan(100);
    });

    it('continues when a file has disappeared', async () => {
      const { spool } = await open({ batchRecords: 1 });
      await spool.add([1, 2]);
      await rm(path.join(folder, (await readdir(folder)).sort()[0]!));
      expect(await drain(spool)).to.deep.equal([[2]]);
    });
  });

  describe('an event', () => {
    const now = Date.parse('2026-05-01T12:00:00Z');

    it('is accepted by the server, whatever the entry was', () => {
      const odd = entry({
        source: '',
        message: `a\0b\ud800${'x'.repeat(40_000)}`,
        timeCreated: 'no time',
        category: 'x'.repeat(300),
        user: 'y'.repeat(300),
      });
      const event = deviceEvent('syslog', odd, now);
      expect(DeviceEvent.safeParse(event).success).to.equal(true);
      expect(event).to.include({ source: 'syslog', timestamp: '2026-05-01T12:00:00.000Z' });
      expect(event.message).to.have.length(LOG_MESSAGE_MAX).and.match(/x…$/);
    });

    it('is identified by its record, so that two lines of one process are two events', () => {
      const [first, second] = [entry({ eventId: 7 }), entry({ eventId: 7 })].map((one) =>
        deviceEvent('System', one, now),
      );
      expect(first!.eventId).not.to.equal(second!.eventId);
      expect(first!.eventId).to.match(/^System:\d+$/);
      const longName = 'x'.repeat(120);
      const [one, other] = [entry(), entry()].map((each) => deviceEvent(longName, each, now));
      expect(one!.eventId).not.to.equal(other!.eventId);
    });

    it('has a level and a category that the server knows', () => {
      const of = (log: string, more: Partial<LogEntry>) => {
        const { level, category } = deviceEvent(log, entry(more), now);
        return [level, category];
      };
      expect(of('Security', { level: 'information', category: '' })).to.deep.equal(['info', 'security']);
      expect(of('System', { level: 'warning', category: 'authpriv' })).to.deep.equal(['warning', 'security']);
      expect(of('System', { level: 'critical', category: 'kernel' })).to.deep.equal(['critical', 'hardware']);
      expect(of('Application', { category: '' })).to.deep.equal(['error', 'application']);
      expect(of('syslog', { category: '', source: 'cron' })).to.deep.equal(['error', 'system']);
    });

    it('from a clock that is ahead gets the present time', () => {
      const ahead = entry({ timeCreated: '2031-01-01T00:00:00Z' });
      expect(deviceEvent('System', ahead, now).timestamp).to.equal('2026-05-01T12:00:00.000Z');
    });
  });

  describe('what is new in a log', () => {
    const events: DeviceEvent[] = [];
    const warnings: string[] = [];
    const collector = (reader: LogSource, logs: string[]) =>
      new MachineEvents({
        reader,
        logs,
        file: path.join(folder, 'marks.json'),
        serverTime: () => Date.now(),
        keep: async (some) => void events.push(...some),
        warn: (message) => void warnings.push(message),
      });
    const logOf = (entries: () => LogEntry[], asked: string[] = []): LogSource => ({
      async *query({ startTime, name }) {
        asked.push(name);
        if (name === 'broken') throw new Error('no rights');
        if (name !== 'System') throw logNotFound(name);
        const from = Date.parse(startTime ?? '');
        yield* entries()
          .filter(({ timeCreated }) => Date.parse(timeCreated) >= from)
          .toReversed();
        return { scanned: 0, truncated: false };
      },
    });
    const signal = new AbortController().signal;
    beforeEach(() => {
      events.length = 0;
      warnings.length = 0;
    });

    it('is sent once, oldest first, also after a restart of the agent', async () => {
      const log = [entry({ message: 'one' }), entry({ message: 'two' })];
      const reader = logOf(() => log);
      const machine = collector(reader, ['System']);
      await machine.collect(signal);
      await machine.collect(signal);
      // Written late, and dated before the newest one.
      log.push(entry({ message: 'late', timeCreated: new Date(Date.now() - 30_000).toISOString() }));
      await collector(reader, ['System']).collect(signal);
      expect(events.map(({ message }) => message)).to.deep.equal(['one', 'two', 'late']);
    });

    it('does not count as sent when it could not be stored', async () => {
      const machine = collector(
        logOf(() => [entry({ message: 'kept at last' })]),
        ['System'],
      );
      const full = new MachineEvents({
        reader: logOf(() => [entry()]),
        logs: ['System'],
        file: path.join(folder, 'marks.json'),
        serverTime: () => Date.now(),
        keep: () => Promise.reject(new Error('the disk is full')),
        warn: (message) => void warnings.push(message),
      });
      await full.collect(signal);
      await full.collect(signal);
      expect(warnings).to.have.length(1);
      await machine.collect(signal);
      expect(events).to.have.length(1);
    });

    it('is found in the other logs when one is missing and one cannot be read', async () => {
      const asked: string[] = [];
      const log = [entry()];
      const machine = collector(
        logOf(() => log, asked),
        ['syslog', 'broken', 'System'],
      );
      await machine.collect(signal);
      await machine.collect(signal);
      expect(events).to.have.length(1);
      expect(warnings).to.have.length(1);
      expect(asked).to.deep.equal(['syslog', 'broken', 'System', 'broken', 'System']);
    });

    it('covers the last hour in the first round, and marks advance without new entries', () => {
      const now = Date.parse('2026-05-01T12:00:00Z');
      const before = { at: now - 3_600_000, ids: [1] };
      expect(markAfter({ before, entries: [], isWhole: true, now }).at).to.equal(now - 600_000);
      expect(markAfter({ before, entries: [], isWhole: false, now }).at).to.equal(before.at);
      const ahead = entry({ timeCreated: '2031-01-01T00:00:00Z' });
      expect(markAfter({ before, entries: [ahead], isWhole: true, now })).to.deep.equal({
        at: now,
        ids: [ahead.recordId],
      });
    });

    it('is searched in logs that together hold everything once', () => {
      expect(shippedLogs('linux')).to.include('System').and.include('syslog');
      // The text files of a machine with a journal repeat it.
      expect(shippedLogs('linux', true)).to.deep.equal(['System']);
      expect(shippedLogs('win32')).to.include('Security');
      expect(shippedLogs('darwin')).to.deep.equal(['Errors']);
    });
  });

  describe('an answer', () => {
    const verdict = (status: number, more: object = {}) =>
      uploadVerdict(
        { status, body: undefined, refusal: 'no', retryAfterMs: undefined, ...more },
        3,
        () => 0.5,
      );

    it('decides what happens to the batch', () => {
      expect(verdict(201)).to.deep.equal({ do: 'done' });
      const details = [
        { path: 'body.events.3.message', message: 'x' },
        { path: 'body.events.3.level', message: 'x' },
        { path: 'body.events.17', message: 'x' },
      ];
      expect(verdict(400, { body: { details } })).to.deep.equal({ do: 'resend', without: new Set([3, 17]) });
      expect(verdict(400).do).to.equal('give-up');
      expect(verdict(413).do).to.equal('give-up');
      expect(verdict(401).do).to.equal('other-token');
      for (const status of [429, 500, 502, 503]) {
        expect(verdict(status)).to.deep.equal({ do: 'wait', ms: 250 + 4000 });
      }
      expect(verdict(503, { retryAfterMs: 30_000 })).to.deep.equal({ do: 'wait', ms: 33_000 });
      // A server of before this existed is not asked every few seconds.
      expect((verdict(404) as { ms: number }).ms).to.be.greaterThan(120_000);
    });
  });
});
