import { expect } from 'chai';
import fc from 'fast-check';
import sinon from 'sinon';
import type { DeviceStore, DeviceFacts, PresenceRecord, ReportRecord } from '../../../../src/hub/ports.ts';
import { PresenceWriter } from '../../../../src/hub/presence/presence-writer.ts';
import { quietLog, recordingLog } from '../../../support/quiet-log.ts';

const FLUSH_MS = 500;
const record = (deviceId: string, epoch: number, uptimeSeconds = 0): PresenceRecord => ({
  deviceId,
  epoch,
  presence: { state: 'connected', since: '2026-01-31T08:00:00.000Z', reason: 'connected' },
  lastSeenAt: null,
  lastIp: null,
  metrics: null,
  uptimeSeconds,
});
const facts = (deviceId: string, agentVersion: string): DeviceFacts => ({
  deviceId,
  agentVersion,
  capabilities: [],
  osVersion: undefined,
  osBuild: undefined,
  watchdogVersion: undefined,
  lastUser: undefined,
  pendingReboot: undefined,
  autoUpdate: undefined,
});

/** A store whose writes end when and how the test says. */
function fakeStore() {
  const batches: PresenceRecord[][] = [];
  const factBatches: DeviceFacts[][] = [];
  const reports: ReportRecord[] = [];
  const stored = new Map<string, PresenceRecord>();
  const store = {
    up: true,
    /** The device whose records the database refuses. */
    refused: '',
    reportsUp: true,
    gate: Promise.resolve(),
    batches,
    factBatches,
    stored,
    reports,
    async recordPresence(records: readonly PresenceRecord[]) {
      await store.gate;
      if (!store.up) throw new Error('the database is away');
      if (records.some(({ deviceId }) => deviceId === store.refused)) {
        throw Object.assign(new Error('value out of range'), { code: '22003' });
      }
      batches.push(structuredClone([...records]));
      for (const one of records) {
        if ((stored.get(one.deviceId)?.epoch ?? 0) <= one.epoch) stored.set(one.deviceId, one);
      }
    },
    async recordReports(records: readonly ReportRecord[]) {
      if (!store.up || !store.reportsUp) throw new Error('the database is away');
      reports.push(...records);
    },
    reporting: async () => [],
    async recordFacts(all: readonly DeviceFacts[]) {
      if (!store.up) throw new Error('the database is away');
      factBatches.push([...all]);
      return all.map(({ deviceId }) => deviceId);
    },
    recordConflict: async () => {},
    markLost: async () => [],
    greatestEpoch: async () => 0,
    misrecorded: async () => [],
    askable: async () => new Map(),
    found: async () => [],
    summaries: async () => [],
    summariesOf: async () => [],
  } satisfies DeviceStore & Record<string, unknown>;
  return store;
}

describe('the presence writer', () => {
  let clock: sinon.SinonFakeTimers;
  let store: ReturnType<typeof fakeStore>;
  let writer: PresenceWriter;
  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    store = fakeStore();
    writer = new PresenceWriter(store, quietLog);
  });
  afterEach(() => clock.restore());

  it('knows for how long the oldest record has been waiting, also while the database fails', async () => {
    expect(writer.lateMs).to.equal(0);
    let open = () => {};
    store.gate = new Promise((resolve) => (open = resolve));
    store.up = false;
    writer.presence(record('device-1', 1));
    await clock.tickAsync(3000);
    writer.presence(record('device-2', 1));
    expect(writer.lateMs).to.equal(3000);
    open();
    await clock.tickAsync(100);
    expect(writer.lateMs).to.equal(3100);
    store.up = true;
    await writer.settle();
    expect(writer.lateMs).to.equal(0);
  });

  it('writes the latest record of each device once, after a short delay', async () => {
    for (let i = 1; i <= 50; i++) writer.presence(record(`device-${i % 5}`, 1, i));
    writer.facts(facts('device-1', '1.0.0'));
    writer.facts(facts('device-1', '1.1.0'));
    expect([writer.pending, store.batches.length]).to.deep.equal([6, 0]);
    await clock.tickAsync(FLUSH_MS);
    expect(store.batches).to.have.lengthOf(1);
    expect(store.batches[0]?.map(({ uptimeSeconds }) => uptimeSeconds)).to.have.members([46, 47, 48, 49, 50]);
    expect(store.factBatches.flat().map(({ agentVersion }) => agentVersion)).to.deep.equal(['1.1.0']);
    await clock.tickAsync(10 * FLUSH_MS);
    expect([writer.pending, store.batches.length, clock.countTimers()]).to.deep.equal([0, 1, 0]);
  });

  it('writes a record that changed in place in its latest state, and again after a later change', async () => {
    const mine = record('device-1', 1, 1);
    writer.presence(mine);
    mine.uptimeSeconds = 2;
    writer.presence(mine);
    await clock.tickAsync(FLUSH_MS);
    expect(store.batches.map((batch) => batch.map((one) => one.uptimeSeconds))).to.deep.equal([[2]]);

    mine.uptimeSeconds = 3;
    writer.presence(mine);
    store.up = false;
    await clock.tickAsync(FLUSH_MS);
    mine.presence = { ...mine.presence, state: 'disconnected', reason: 'socket_closed' };
    writer.presence(mine);
    expect(writer.pending).to.equal(1);
    store.up = true;
    await clock.tickAsync(FLUSH_MS);
    expect(store.batches).to.have.length(2);
    expect(store.stored.get('device-1')).to.deep.include({ uptimeSeconds: 3, presence: mine.presence });
    await clock.tickAsync(FLUSH_MS);
    expect([store.batches.length, writer.pending]).to.deep.equal([2, 0]);
  });

  const many = (count: number) => {
    for (let i = 0; i < count; i++) writer.presence(record(`device-${i}`, 1));
  };
  const sizes = () => store.batches.map((batch) => batch.length);

  it('writes few devices at once, and many in batches spread over the time until the next flush', async () => {
    many(90);
    await clock.tickAsync(FLUSH_MS);
    expect(sizes()).to.deep.equal([90]);

    store.batches.length = 0;
    many(2500);
    await clock.tickAsync(FLUSH_MS);
    expect(sizes()).to.deep.equal([250]);
    await clock.tickAsync(FLUSH_MS / 2);
    expect(sizes().length).to.be.within(5, 8);
    await clock.tickAsync(FLUSH_MS / 2);
    expect(sizes()).to.deep.equal(Array.from({ length: 10 }, () => 250));
    expect(store.stored.size).to.equal(2500);
  });

  it('writes a whole fleet in batches of at most 1000, in the same time', async () => {
    many(24_500);
    await clock.tickAsync(2 * FLUSH_MS);
    expect(sizes()).to.deep.equal([...Array.from({ length: 24 }, () => 1000), 500]);
  });

  it('writes without spreading when it closes, even if it had already begun to spread', async () => {
    many(2500);
    await clock.tickAsync(FLUSH_MS);
    const closed = writer.close();
    // For two batches it waits already.
    await clock.tickAsync(FLUSH_MS / 5);
    await closed;
    expect(store.stored.size).to.equal(2500);
    expect(writer.pending).to.equal(0);
  });

  it('keeps the latest records while the database is unavailable and writes them when it is back', async () => {
    store.up = false;
    for (let i = 1; i <= 5; i++) {
      writer.presence(record('device-1', 1, i));
      writer.presence(record(`device-${i + 1}`, 1, i));
      writer.facts(facts('device-1', `1.${i}.0`));
      await clock.tickAsync(FLUSH_MS);
    }
    expect([store.batches.length, writer.pending]).to.deep.equal([0, 7]);
    store.up = true;
    await clock.tickAsync(2 * FLUSH_MS);
    expect(store.stored.get('device-1')?.uptimeSeconds).to.equal(5);
    expect([store.stored.size, writer.pending]).to.deep.equal([6, 0]);
    expect(store.factBatches.flat().map(({ agentVersion }) => agentVersion)).to.deep.equal(['1.5.0']);
  });

  it('drops a record that the database refuses and writes all others', async () => {
    const lines = recordingLog();
    let refused = 0;
    writer = new PresenceWriter(store, lines.log, { onRefused: (count) => void (refused += count) });
    store.refused = 'device-7';
    many(90);
    writer.facts(facts('device-7', '1.0.0'));
    await clock.tickAsync(2 * FLUSH_MS);
    expect([store.stored.size, writer.pending, refused]).to.deep.equal([89, 0, 1]);
    expect(store.factBatches.flat().map(({ deviceId }) => deviceId)).to.deep.equal(['device-7']);
    expect(lines.lines.find(({ event }) => event === 'hub.presence_refused')).to.include({
      deviceId: 'device-7',
    });

    // Not tried again, also where the database goes away behind it.
    many(20);
    store.reportsUp = false;
    writer.report(report('device-1', 1));
    await clock.tickAsync(FLUSH_MS);
    expect(refused).to.equal(2);
    store.reportsUp = true;
    await clock.tickAsync(2 * FLUSH_MS);
    expect([refused, writer.pending]).to.deep.equal([2, 0]);
  });

  it('never replaces a record of a later claim by one of an earlier claim, even around a failed write', async () => {
    writer.presence(record('device-1', 5, 50));
    writer.presence(record('device-1', 4, 40));
    let open = () => {};
    store.gate = new Promise((resolve) => (open = resolve));
    store.up = false;
    await clock.tickAsync(FLUSH_MS);
    // The write is under way, and about to fail.
    writer.presence(record('device-1', 4, 41));
    open();
    await clock.tickAsync(0);
    store.up = true;
    await clock.tickAsync(2 * FLUSH_MS);
    expect(store.stored.get('device-1')).to.include({ epoch: 5, uptimeSeconds: 50 });
  });

  const report = (deviceId: string, uptimeSeconds: number): ReportRecord => ({
    deviceId,
    until: '2026-01-31T08:02:30.000Z',
    lastSeenAt: '2026-01-31T08:00:00.000Z',
    lastIp: '203.0.113.7',
    metrics: null,
    uptimeSeconds,
  });

  it('writes the latest report of each device, also after the database was unavailable', async () => {
    writer.report(report('device-1', 1));
    writer.report(report('device-1', 2));
    store.up = false;
    await clock.tickAsync(FLUSH_MS);
    writer.report(report('device-2', 3));
    store.up = true;
    await clock.tickAsync(2 * FLUSH_MS);
    expect(store.reports.map(({ uptimeSeconds }) => uptimeSeconds)).to.have.members([2, 3]);
    expect(writer.pending).to.equal(0);
  });

  it('drops a report that is older than a connection, also around a failed write', async () => {
    writer.report(report('device-1', 1));
    writer.presence(record('device-1', 1));
    await clock.tickAsync(FLUSH_MS);
    expect(store.reports).to.deep.equal([]);

    writer.report(report('device-1', 2));
    let open = () => {};
    store.gate = new Promise((resolve) => (open = resolve));
    writer.presence(record('device-2', 1));
    store.up = false;
    await clock.tickAsync(FLUSH_MS);
    // The write of the report is under way, and about to fail.
    writer.presence(record('device-1', 2));
    open();
    await clock.tickAsync(0);
    store.up = true;
    await clock.tickAsync(2 * FLUSH_MS);
    expect(store.reports).to.deep.equal([]);
  });

  it('keeps what a later report leaves out', async () => {
    writer.facts({ ...facts('device-1', '1.0.0'), capabilities: ['eventlogs.list'], autoUpdate: false });
    writer.facts({ ...facts('device-1', '1.1.0'), capabilities: undefined, autoUpdate: true });
    writer.facts({ ...facts('device-1', '1.1.0'), capabilities: undefined, lastUser: 'ana' });
    await clock.tickAsync(FLUSH_MS);
    const merged = {
      ...facts('device-1', '1.1.0'),
      capabilities: ['eventlogs.list'],
      autoUpdate: true,
      lastUser: 'ana',
    };
    expect(store.factBatches).to.deep.equal([[merged]]);
    store.up = false;
    writer.facts({ ...merged, autoUpdate: false });
    await clock.tickAsync(FLUSH_MS);
    writer.facts({ ...facts('device-1', '1.2.0'), capabilities: undefined });
    store.up = true;
    await clock.tickAsync(2 * FLUSH_MS);
    expect(store.factBatches.at(-1)).to.deep.equal([{ ...merged, agentVersion: '1.2.0', autoUpdate: false }]);
  });

  it('writes the remaining records when it closes, also after a write that is under way', async () => {
    let open = () => {};
    store.gate = new Promise((resolve) => (open = resolve));
    writer.presence(record('device-1', 1, 1));
    await clock.tickAsync(FLUSH_MS);
    writer.presence(record('device-1', 1, 2));
    const closing = writer.close();
    open();
    await closing;
    expect(store.stored.get('device-1')?.uptimeSeconds).to.equal(2);
    expect([writer.pending, clock.countTimers()]).to.deep.equal([0, 0]);
  });

  it('leaves the newest record of each device in the store, however often the database fails', async () => {
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.record({ device: fc.nat(3), epoch: fc.integer({ min: 1, max: 4 }) }) },
      { weight: 2, arbitrary: fc.constant('tick' as const) },
      {
        weight: 1,
        arbitrary: fc.constantFrom('up' as const, 'down' as const, 'slow' as const, 'go' as const),
      },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        store = fakeStore();
        writer = new PresenceWriter(store, quietLog);
        const newest = new Map<string, { epoch: number; count: number }>();
        let open = () => {};
        let count = 0;
        for (const action of steps) {
          if (action === 'tick') await clock.tickAsync(FLUSH_MS);
          else if (action === 'up' || action === 'down') store.up = action === 'up';
          else if (action === 'slow') {
            open();
            store.gate = new Promise((resolve) => (open = resolve));
          } else if (action === 'go') open();
          else {
            const deviceId = `device-${action.device}`;
            count += 1;
            writer.presence(record(deviceId, action.epoch, count));
            if (action.epoch >= (newest.get(deviceId)?.epoch ?? 0)) {
              newest.set(deviceId, { epoch: action.epoch, count });
            }
          }
        }
        store.up = true;
        store.gate = Promise.resolve();
        open();
        await writer.close();
        for (const [deviceId, { epoch, count: last }] of newest) {
          expect(store.stored.get(deviceId), deviceId).to.include({ epoch, uptimeSeconds: last });
        }
        expect([writer.pending, clock.countTimers()]).to.deep.equal([0, 0]);
      }),
    );
  });
});
