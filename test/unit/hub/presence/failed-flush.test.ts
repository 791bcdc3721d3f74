import { expect } from 'chai';
import sinon from 'sinon';
import type { DeviceStore, DeviceFacts, PresenceRecord, ReportRecord } from '../../../../src/hub/ports.ts';
import { PresenceWriter } from '../../../../src/hub/presence/presence-writer.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const FLUSH_MS = 500;

const connected = (epoch: number, lastIp: string | null = null, deviceId = 'device-1'): PresenceRecord => ({
  deviceId,
  epoch,
  presence: { state: 'connected', since: '2026-01-31T08:00:00.000Z', reason: 'connected' },
  lastSeenAt: null,
  lastIp,
  metrics: null,
  uptimeSeconds: null,
});
const disconnected = (epoch: number, lastIp: string | null = null): PresenceRecord => ({
  ...connected(epoch, lastIp),
  presence: { state: 'disconnected', since: '2026-01-31T08:00:00.000Z', reason: 'socket_closed' },
});
const report = (uptimeSeconds: number, lastIp = '10.0.0.1', deviceId = 'device-1'): ReportRecord => ({
  deviceId,
  until: '2026-01-31T08:02:30.000Z',
  lastSeenAt: '2026-01-31T08:00:00.000Z',
  lastIp,
  metrics: null,
  uptimeSeconds,
});
const facts = (agentVersion: string): DeviceFacts => ({
  deviceId: 'device-1',
  agentVersion,
  capabilities: undefined,
  osVersion: undefined,
  osBuild: undefined,
  watchdogVersion: undefined,
  lastUser: undefined,
  pendingReboot: undefined,
  autoUpdate: undefined,
});
const entries = (addresses: ReadonlyMap<string, readonly string[]> | undefined) =>
  [...(addresses ?? [])].map(([id, earlier]) => [id, [...earlier]]);

describe('a failed flush of the presence writer', () => {
  let clock: sinon.SinonFakeTimers;
  let writer: PresenceWriter;
  let written: { presence: PresenceRecord[]; reports: ReportRecord[]; facts: DeviceFacts[]; order: string[] };
  let addresses: unknown[];
  let isDown: boolean;
  /** Called while facts are written. */
  let whileFacts: () => void;
  /** Writes of presence that have begun. */
  let begun: number;
  let recovered: number;
  let changed: string[][];
  let late: PresenceRecord[];
  let refused: number[];
  let log: ReturnType<typeof recordingLog>;
  /** Ends the write of presence that is under way. */
  let end: () => void;
  let gate: Promise<void>;
  const hold = () => {
    gate = new Promise((resolve) => (end = resolve));
  };

  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    written = { presence: [], reports: [], facts: [], order: [] };
    addresses = [];
    isDown = false;
    whileFacts = () => {};
    begun = 0;
    recovered = 0;
    changed = [];
    late = [];
    refused = [];
    gate = Promise.resolve();
    log = recordingLog();
    const fail = () => {
      if (isDown) throw new Error('the database is away');
    };
    const store: Pick<DeviceStore, 'recordPresence' | 'recordReports' | 'recordFacts'> = {
      async recordPresence(records, history) {
        begun += 1;
        await gate;
        fail();
        written.order.push('presence');
        written.presence.push(...structuredClone(records));
        addresses.push(...entries(history));
      },
      async recordReports(records, history) {
        fail();
        written.order.push('reports');
        written.reports.push(...structuredClone(records));
        addresses.push(...entries(history));
      },
      async recordFacts(records) {
        whileFacts();
        written.order.push('facts');
        written.facts.push(...structuredClone(records));
        return records.filter(({ agentVersion }) => agentVersion !== 'same').map(({ deviceId }) => deviceId);
      },
    };
    writer = new PresenceWriter(store as DeviceStore, log.log, {
      onChanged: (ids) => void changed.push([...ids]),
      onRefused: (count) => void refused.push(count),
      onRecovered: () => void (recovered += 1),
      onLate: (records) => void late.push(...structuredClone(records)),
    });
  });
  afterEach(() => clock.restore());

  /** Begins a flush that will fail, calls `meanwhile`, lets it fail, and writes everything in the next flush. */
  async function failWhile(meanwhile: () => void): Promise<void> {
    hold();
    isDown = true;
    await clock.tickAsync(FLUSH_MS);
    meanwhile();
    end();
    await clock.tickAsync(0);
    isDown = false;
    await clock.tickAsync(2 * FLUSH_MS);
  }

  it('does not put a record back over one of a later claim', async () => {
    writer.presence(connected(4));
    await failWhile(() => writer.presence(connected(5)));
    expect(written.presence.map(({ epoch }) => epoch)).to.deep.equal([5]);
  });

  it('does not put a record back over a later one of the same claim', async () => {
    writer.presence(connected(4));
    await failWhile(() => writer.presence(disconnected(4)));
    expect(written.presence.map(({ presence }) => presence.state)).to.deep.equal(['disconnected']);
  });

  it('puts a record back over one of an earlier claim', async () => {
    writer.presence(connected(5));
    await failWhile(() => writer.presence(connected(4)));
    expect(written.presence.map(({ epoch }) => epoch)).to.deep.equal([5]);
  });

  it('puts back a record that nothing has replaced', async () => {
    writer.presence(connected(5));
    await failWhile(() => {});
    expect(written.presence.map(({ epoch }) => epoch)).to.deep.equal([5]);
  });

  it('does not put a report back over a later one, nor over a later connection', async () => {
    writer.presence(connected(1, null, 'device-2'));
    writer.report(report(1));
    await failWhile(() => writer.report(report(2)));
    expect(written.reports.map(({ uptimeSeconds }) => uptimeSeconds)).to.deep.equal([2]);
    written.reports = [];
    writer.presence(connected(1, null, 'device-2'));
    writer.report(report(3));
    await failWhile(() => writer.presence(connected(1)));
    expect(written.reports).to.deep.equal([]);
  });

  it('puts a report back beside a connection that has ended, and beside one from before it', async () => {
    writer.presence(connected(1, null, 'device-2'));
    writer.report(report(3));
    await failWhile(() => writer.presence(disconnected(1)));
    expect(written.reports.map(({ uptimeSeconds }) => uptimeSeconds)).to.deep.equal([3]);
    written.reports = [];
    // The report came after the connection in the same flush, so it is the newer of the two.
    writer.presence(connected(2));
    writer.report(report(4));
    await failWhile(() => {});
    expect(written.reports.map(({ uptimeSeconds }) => uptimeSeconds)).to.deep.equal([4]);
  });

  it('puts facts back under those that came meanwhile', async () => {
    writer.facts({ ...facts('1.0.0'), lastUser: 'ana', osBuild: '6' });
    whileFacts = () => {
      writer.facts({ ...facts('2.0.0'), osBuild: '7' });
      throw new Error('the database is away');
    };
    await clock.tickAsync(FLUSH_MS);
    whileFacts = () => {};
    await clock.tickAsync(FLUSH_MS);
    expect(written.facts).to.have.length(1);
    expect(written.facts[0]).to.include({ agentVersion: '2.0.0', lastUser: 'ana', osBuild: '7' });
    writer.facts({ ...facts('3.0.0'), lastUser: 'bob' });
    isDown = true;
    writer.presence(connected(1));
    await clock.tickAsync(FLUSH_MS);
    isDown = false;
    await clock.tickAsync(FLUSH_MS);
    // They are written again where a later part of the same flush failed, and are the same then.
    expect(written.facts.slice(1).map(({ lastUser }) => lastUser)).to.deep.equal(['bob', 'bob']);
    expect(writer.pending).to.equal(0);
  });

  it('is logged once, and once that it is over, which is also reported', async () => {
    const events = () => log.lines.map(({ event }) => event);
    isDown = true;
    writer.presence(connected(1));
    await clock.tickAsync(4 * FLUSH_MS);
    expect(events()).to.deep.equal(['hub.presence_not_written']);
    expect(log.lines[0]).to.include({ waiting: 1 });
    expect(recovered).to.equal(0);
    isDown = false;
    await clock.tickAsync(2 * FLUSH_MS);
    expect([events().at(-1), recovered]).to.deep.equal(['hub.presence_written_again', 1]);
    writer.presence(connected(2));
    await clock.tickAsync(FLUSH_MS);
    expect([log.lines.length, recovered]).to.deep.equal([2, 1]);
    isDown = true;
    writer.presence(connected(3));
    await clock.tickAsync(FLUSH_MS);
    expect(events().at(-1)).to.equal('hub.presence_not_written');
    expect(log.lines).to.have.length(3);
  });

  it('keeps the addresses that its records replaced, and those of records that it drops', async () => {
    writer.presence(connected(1, '10.0.0.1'));
    writer.presence(connected(1, '10.0.0.2'));
    await failWhile(() => writer.presence(connected(2, '10.0.0.3')));
    expect(addresses).to.deep.equal([['device-1', ['10.0.0.1', '10.0.0.2']]]);
  });

  it('does not repeat an address that has stayed the same', async () => {
    writer.presence(connected(1, '10.0.0.1'));
    await failWhile(() => writer.presence(connected(2, '10.0.0.1')));
    writer.presence(connected(2, null));
    await failWhile(() => writer.presence(connected(3, '10.0.0.2')));
    expect(addresses).to.deep.equal([]);
  });

  it('does not repeat the addresses of records that were written before it failed', async () => {
    for (let n = 0; n < 150; n++) {
      writer.presence(connected(1, '10.0.0.1', `device-${n}`));
      writer.presence(connected(1, '10.0.0.2', `device-${n}`));
    }
    await clock.tickAsync(FLUSH_MS);
    const first = written.presence.map(({ deviceId }) => deviceId);
    expect(first, 'a batch, and later a second one').to.have.length(100);
    addresses = [];
    isDown = true;
    await clock.tickAsync(FLUSH_MS / 2);
    isDown = false;
    await clock.tickAsync(4 * FLUSH_MS);
    const repeated = new Set((addresses as [string, string[]][]).map(([id]) => id));
    expect(repeated.size).to.equal(50);
    expect(first.filter((id) => repeated.has(id))).to.deep.equal([]);
  });

  it('keeps the addresses of reports apart', async () => {
    writer.presence(connected(1, null, 'device-2'));
    writer.report(report(1, '10.0.0.1'));
    writer.report(report(2, '10.0.0.2'));
    await failWhile(() => writer.report(report(3, '10.0.0.2')));
    expect(addresses).to.deep.equal([['device-1', ['10.0.0.1']]]);
    addresses = [];
    writer.report(report(4, '10.0.0.5'));
    await clock.tickAsync(FLUSH_MS);
    expect(addresses).to.deep.equal([]);
  });

  describe('beside it, a flush that succeeds', () => {
    it('writes facts first and reports last', async () => {
      writer.report(report(1, '10.0.0.1', 'device-2'));
      writer.presence(connected(1));
      writer.facts(facts('1.0.0'));
      await clock.tickAsync(FLUSH_MS);
      expect(written.order).to.deep.equal(['facts', 'presence', 'reports']);
    });

    it('reports the devices whose stored facts have changed', async () => {
      writer.facts(facts('1.0.0'));
      await clock.tickAsync(FLUSH_MS);
      writer.facts(facts('same'));
      await clock.tickAsync(FLUSH_MS);
      expect(changed).to.deep.equal([['device-1']]);
      expect([refused, recovered]).to.deep.equal([[], 0]);
    });

    it('gives the addresses of a replaced report to no later report', async () => {
      writer.report(report(1, '10.0.0.1'));
      writer.report(report(2, '10.0.0.2'));
      writer.presence(connected(1, '10.0.0.3'));
      writer.report(report(3, '10.0.0.3'));
      await clock.tickAsync(FLUSH_MS);
      expect(written.reports).to.have.length(1);
      expect(addresses).to.deep.equal([['device-1', ['10.0.0.1', '10.0.0.2']]]);
    });

    it('is made at once if it is waited for, after one that is under way, and with all of its batches', async () => {
      hold();
      writer.presence(connected(1));
      await clock.tickAsync(FLUSH_MS);
      for (let n = 0; n < 500; n++) writer.presence(connected(2, null, `device-${n}`));
      let isSettled = false;
      const settling = writer.settle().then(() => (isSettled = true));
      await clock.tickAsync(0);
      expect([begun, isSettled]).to.deep.equal([1, false]);
      end();
      await settling;
      expect([writer.pending, written.presence.length, clock.countTimers()]).to.deep.equal([0, 501, 0]);
      // The next one waits, and is spread over time again.
      begun = 0;
      for (let n = 0; n < 500; n++) writer.presence(connected(3, null, `device-${n}`));
      await clock.tickAsync(FLUSH_MS - 1);
      expect(begun).to.equal(0);
      await clock.tickAsync(1);
      expect(begun).to.be.within(1, 4);
    });

    it('reports disconnections that were written late, and no others', async () => {
      writer.presence(disconnected(1));
      await clock.tickAsync(FLUSH_MS);
      expect(late).to.deep.equal([]);
      hold();
      writer.presence(disconnected(2));
      writer.presence(connected(3, null, 'device-2'));
      await clock.tickAsync(FLUSH_MS + 2000);
      expect(late).to.deep.equal([]);
      end();
      await clock.tickAsync(0);
      expect(late).to.deep.equal([disconnected(2)]);
      writer.presence(disconnected(4));
      await clock.tickAsync(FLUSH_MS);
      expect(late).to.deep.equal([disconnected(2)]);
    });

    it('reports the devices whose host name the store could not take yet', async () => {
      const postponed: string[] = [];
      const store = {
        async recordFacts(records: readonly DeviceFacts[], onPostponed: (ids: readonly string[]) => void) {
          onPostponed(records.map(({ deviceId }) => deviceId));
          return [];
        },
      } as unknown as DeviceStore;
      const other = new PresenceWriter(store, log.log, {
        onPostponed: (ids) => void postponed.push(...ids),
      });
      other.facts(facts('1.0.0'));
      await other.settle();
      expect(postponed).to.deep.equal(['device-1']);
    });

    it('gives the addresses of a replaced report to the connection that replaces it', async () => {
      writer.report(report(1, '10.0.0.1'));
      writer.report(report(2, '10.0.0.2'));
      writer.presence(connected(1, '10.0.0.3'));
      await clock.tickAsync(FLUSH_MS);
      expect(written.reports).to.deep.equal([]);
      expect(addresses).to.deep.equal([['device-1', ['10.0.0.1', '10.0.0.2']]]);
    });

    it('keeps a report beside the presence of a connection that has ended', async () => {
      writer.report(report(1));
      writer.presence(disconnected(1));
      await clock.tickAsync(FLUSH_MS);
      expect(written.reports).to.have.length(1);
    });

    it('writes each address of the history once', async () => {
      writer.presence(connected(1, '10.0.0.1'));
      writer.presence(connected(2, '10.0.0.2'));
      await clock.tickAsync(FLUSH_MS);
      writer.presence(connected(3, '10.0.0.2'));
      await clock.tickAsync(FLUSH_MS);
      expect(addresses).to.deep.equal([['device-1', ['10.0.0.1']]]);
    });

    it('is waited for by the one that closes the writer, so that an older record is not the last', async () => {
      hold();
      writer.presence(connected(1));
      await clock.tickAsync(FLUSH_MS);
      writer.presence(connected(2));
      let isClosed = false;
      const closing = writer.close().then(() => (isClosed = true));
      await clock.tickAsync(2 * FLUSH_MS);
      expect([begun, isClosed]).to.deep.equal([1, false]);
      end();
      await closing;
      expect([begun, written.presence.map(({ epoch }) => epoch)]).to.deep.equal([2, [1, 2]]);
    });

    it('ends after all its batches when one of them fails, so that no device is in two at once', async () => {
      for (let n = 0; n < 150; n++) writer.presence(connected(1, null, `device-${n}`));
      // The first batch fails while the second one is under way.
      let failFirst = () => {};
      gate = new Promise((_resolve, reject) => (failFirst = () => reject(new Error('connection reset'))));
      await clock.tickAsync(FLUSH_MS);
      hold();
      await clock.tickAsync(FLUSH_MS / 2);
      expect(begun).to.equal(2);
      failFirst();
      await clock.tickAsync(4 * FLUSH_MS);
      expect([begun, writer.pending]).to.deep.equal([2, 0]);
      end();
      await clock.tickAsync(4 * FLUSH_MS);
      expect(new Set(written.presence.map(({ deviceId }) => deviceId)).size).to.equal(150);
      expect(writer.pending).to.equal(0);
    });

    it('does not begin while another one is under way', async () => {
      hold();
      writer.presence(connected(1));
      await clock.tickAsync(FLUSH_MS);
      writer.presence(connected(2));
      await clock.tickAsync(3 * FLUSH_MS);
      expect([begun, written.presence]).to.deep.equal([1, []]);
      end();
      await clock.tickAsync(FLUSH_MS);
      expect(written.presence.map(({ epoch }) => epoch)).to.deep.equal([1, 2]);
    });
  });
});
