import { expect } from 'chai';
import sinon from 'sinon';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import type { DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import type {
  AgentIdentity,
  OfferQuestion,
  UpgradeOffers,
  DeviceStore,
  DeviceFacts,
  ReportRecord,
} from '../../../../src/hub/ports.ts';
import {
  HttpReports,
  withLivePresence,
  ReportingDevices,
} from '../../../../src/hub/presence/http-reports.ts';
import type { PresenceWriter } from '../../../../src/hub/presence/presence-writer.ts';
import type { LostDevices } from '../../../../src/hub/presence/lost-devices.ts';
import { startSilenceSweep } from '../../../../src/hub/presence/silence-sweep.ts';
import type { DeviceSummary } from '../../../../src/protocol/index.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const AT = '2026-01-31T08:00:00.000Z';
const NOW = Date.parse(AT);
const COUNTS_FOR_MS = 150_000;
const METRICS = { cpuPercent: 1, ramPercent: 2, diskPercent: 3 };
const IDENTITY: AgentIdentity = {
  deviceId: 'device-1',
  orgId: 'org-1',
  siteId: 'site-1',
  partnerId: 'partner-1',
  machine: { osType: 'linux', architecture: 'x64', autoUpdate: true, canUpgrade: true },
};
const HEARTBEAT = { at: AT, agentVersion: '1.0.0' };
const UPGRADE = [{ component: 'agent', version: '2.0.0' }] as never;

describe('reports over HTTP', () => {
  let clock: sinon.SinonFakeTimers;
  let devices: ReportingDevices;
  let reports: HttpReports;
  let written: ReportRecord[];
  let facts: DeviceFacts[];
  let changed: [string, unknown][];
  let stored: { deviceId: string; until: number | null }[];
  let askedFor: (readonly string[] | undefined)[];
  let isDown: boolean;
  let questions: OfferQuestion[];
  let log: ReturnType<typeof recordingLog>;
  /** Called while the stored deadlines are read. */
  let whileReading: () => void;

  beforeEach(() => {
    clock = sinon.useFakeTimers({
      now: NOW,
      toFake: ['Date', 'performance', 'setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'],
    });
    devices = new ReportingDevices();
    [written, facts, changed, stored, askedFor, questions] = [[], [], [], [], [], []];
    isDown = false;
    whileReading = () => {};
    log = recordingLog();
    const offers: UpgradeOffers = {
      revision: 0,
      offer(question) {
        questions.push(question);
        return { upgrade: UPGRADE, revision: 0, until: Number.POSITIVE_INFINITY };
      },
      onDeviceChanged() {},
    };
    reports = new HttpReports(
      {
        devices,
        offers,
        log: log.log,
        store: {
          async reporting(ids?: readonly string[]) {
            askedFor.push(ids);
            whileReading();
            if (isDown) throw new Error('the database is away');
            return ids === undefined ? stored : stored.filter(({ deviceId }) => ids.includes(deviceId));
          },
        } as DeviceStore,
        writer: {
          report: (record) => void written.push(record),
          facts: (all) => void facts.push(all),
        } as PresenceWriter,
        feed: { changed: (id, patch) => void changed.push([id, patch]) },
      },
      { heartbeatMs: 60_000, countsForMs: COUNTS_FOR_MS },
    );
  });
  afterEach(() => clock.restore());

  const beat = (more: object = {}) => reports.heartbeat(IDENTITY, { ...HEARTBEAT, ...more }, '10.0.0.7');
  async function sweep(): Promise<void> {
    reports.sweep();
    await reports.close();
  }

  it('make a device count as online until a deadline, and are answered from memory', () => {
    expect(beat({ metrics: METRICS, uptimeSeconds: 9 })).to.deep.equal({
      ok: true,
      at: AT,
      nextInMs: 60_000,
      upgrade: UPGRADE,
    });
    expect(written).to.deep.equal([
      {
        deviceId: 'device-1',
        until: '2026-01-31T08:02:30.000Z',
        lastSeenAt: AT,
        lastIp: '10.0.0.7',
        metrics: METRICS,
        uptimeSeconds: 9,
      },
    ]);
    expect(changed).to.deep.equal([['device-1', { isReporting: true, lastSeenAt: AT, metrics: METRICS }]]);
    expect([devices.size, devices.lastSeenAt('device-1')]).to.deep.equal([1, NOW]);
  });

  it('without metrics leave those that are shown, and record none', () => {
    beat();
    expect(written[0]).to.include({ metrics: null, uptimeSeconds: null });
    expect(changed[0]?.[1]).to.deep.equal({ isReporting: true, lastSeenAt: AT });
  });

  it('record facts when they have changed, without capabilities, and ask for upgrades anew', () => {
    beat();
    beat();
    beat({ osVersion: 'Debian 13' });
    beat({ osVersion: 'Debian 13' });
    expect(facts.map(({ osVersion, capabilities }) => [osVersion, capabilities])).to.deep.equal([
      [undefined, undefined],
      ['Debian 13', undefined],
    ]);
    expect(questions).to.have.length(2);
    expect(questions[0]).to.deep.include({
      identity: IDENTITY,
      capabilities: undefined,
      agentVersion: '1.0.0',
    });
  });

  it('end with a connection, after which facts are recorded again', () => {
    beat();
    reports.end('device-1');
    expect([devices.size, devices.lastSeenAt('device-1')]).to.deep.equal([0, undefined]);
    beat();
    expect(facts).to.have.length(2);
  });

  it('count until the deadline, and no longer', async () => {
    beat();
    clock.tick(COUNTS_FOR_MS - 1);
    await sweep();
    expect([askedFor, devices.size]).to.deep.equal([[], 1]);
    clock.tick(1);
    await sweep();
    expect(askedFor).to.deep.equal([['device-1']]);
    expect(devices.size).to.equal(0);
    expect(changed.at(-1)).to.deep.equal(['device-1', { isReporting: false }]);
  });

  it('that another node has received since count as well', async () => {
    beat();
    clock.tick(COUNTS_FOR_MS);
    const until = Date.now() + 5000;
    stored = [{ deviceId: 'device-1', until }];
    await sweep();
    expect([devices.size, changed.length]).to.deep.equal([1, 1]);
    clock.tick(4999);
    await sweep();
    expect(askedFor).to.have.length(1);
    clock.tick(1);
    await sweep();
    expect([devices.size, askedFor.length, changed.length]).to.deep.equal([0, 2, 2]);
  });

  it('that another node has received end when their deadline passes while the deadlines are read', async () => {
    beat();
    clock.tick(COUNTS_FOR_MS);
    stored = [{ deviceId: 'device-1', until: Date.now() + 5 }];
    whileReading = () => void clock.tick(5);
    await sweep();
    expect([devices.size, changed.at(-1)]).to.deep.equal([0, ['device-1', { isReporting: false }]]);
  });

  it('that come while the deadlines are read count', async () => {
    beat();
    clock.tick(COUNTS_FOR_MS);
    whileReading = () => void beat();
    await sweep();
    expect([
      devices.size,
      changed.map(([, patch]) => (patch as { isReporting: boolean }).isReporting),
    ]).to.deep.equal([1, [true, true]]);
    // And so does a connection.
    clock.tick(COUNTS_FOR_MS);
    whileReading = () => reports.end('device-1');
    await sweep();
    expect([devices.size, changed.length]).to.deep.equal([0, 2]);
  });

  it('end without being shown as offline when the device has connected to another node', async () => {
    beat();
    clock.tick(COUNTS_FOR_MS);
    stored = [{ deviceId: 'device-1', until: null }];
    await sweep();
    expect([devices.size, changed.length]).to.deep.equal([0, 1]);
  });

  it('stay while the database is unavailable, and end with the next sweep', async () => {
    beat();
    clock.tick(COUNTS_FOR_MS);
    isDown = true;
    await sweep();
    expect([devices.size, changed.length]).to.deep.equal([1, 1]);
    expect(log.lines.map(({ event }) => event)).to.deep.equal(['hub.reports_not_read']);
    isDown = false;
    await sweep();
    expect([devices.size, changed.length]).to.deep.equal([0, 2]);
  });

  it('are read by one sweep at a time', async () => {
    beat();
    clock.tick(COUNTS_FOR_MS);
    reports.sweep();
    reports.sweep();
    await reports.close();
    expect(askedFor).to.have.length(1);
  });

  it('of an earlier run end when their deadline comes', async () => {
    stored = [
      { deviceId: 'device-1', until: NOW + 5000 },
      { deviceId: 'connected', until: null },
    ];
    await reports.start();
    expect([devices.size, devices.get('device-1')?.known]).to.deep.equal([1, undefined]);
    stored = [];
    clock.tick(4999);
    await sweep();
    expect(devices.size).to.equal(1);
    clock.tick(1);
    await sweep();
    expect([devices.size, changed]).to.deep.equal([0, [['device-1', { isReporting: false }]]]);
  });

  it('end by a clock that no one can set', async () => {
    beat();
    clock.setSystemTime(NOW + 10 * COUNTS_FOR_MS);
    await sweep();
    expect(devices.size).to.equal(1);
  });

  describe('and connections', () => {
    const summary = (more: Partial<DeviceSummary> = {}) =>
      ({
        id: 'device-1',
        status: 'offline',
        lastSeenAt: null,
        presence: { state: 'disconnected', since: AT, reason: 'socket_closed' },
        ...more,
      }) as DeviceSummary;

    it('are shown as they are in memory', () => {
      const registry = new ActorRegistry();
      expect(withLivePresence(summary(), registry, devices)).to.deep.equal(summary());
      beat();
      expect(withLivePresence(summary(), registry, devices)).to.deep.equal(
        summary({ status: 'online', lastSeenAt: AT }),
      );
      const later = '2026-01-31T08:00:01.000Z';
      expect(withLivePresence(summary({ lastSeenAt: later }), registry, devices).lastSeenAt).to.equal(later);
      const actor = {
        deviceId: 'device-1',
        countsAsConnected: true,
        connectedSince: NOW - 5,
        lastHeardAt: NOW + 5,
      };
      registry.put(actor as DeviceActor);
      expect(withLivePresence(summary(), registry, devices)).to.deep.equal(
        summary({
          status: 'online',
          presence: { state: 'connected', since: '2026-01-31T07:59:59.995Z', reason: 'connected' },
          lastSeenAt: '2026-01-31T08:00:00.005Z',
        }),
      );
      registry.put({ ...actor, countsAsConnected: false } as DeviceActor);
      reports.end('device-1');
      expect(withLivePresence(summary(), registry, devices)).to.deep.equal(summary());
    });

    it('are looked through every second, for silence and, every ten seconds, for unread data', () => {
      const registry = new ActorRegistry();
      let sweeps = 0;
      const calls: string[] = [];
      const actor = {
        deviceId: 'device-1',
        isConnected: true,
        countSilentSweep: () => sweeps++,
        heartbeatMissed: () => void calls.push('missed'),
        endIfUnread: () => void calls.push('unread'),
      };
      registry.put(actor as unknown as DeviceActor);
      let orphans = 0;
      beat();
      const stop = startSilenceSweep({
        registry,
        reports,
        lostDevices: { markOrphans: () => void (orphans += 1) } as unknown as LostDevices,
        silentAfterMs: 2500,
      });
      clock.tick(4000);
      expect([calls, orphans]).to.deep.equal([[], 4]);
      clock.tick(1000);
      expect(calls).to.deep.equal(['missed']);
      actor.isConnected = false;
      clock.tick(4999);
      expect(calls).to.deep.equal(['missed']);
      clock.tick(1);
      expect(calls).to.deep.equal(['missed', 'unread']);
      clock.tick(9000);
      expect(calls).to.deep.equal(['missed', 'unread']);
      clock.tick(COUNTS_FOR_MS);
      expect(askedFor).to.have.length(1);
      stop();
      const before = orphans;
      clock.tick(60_000);
      expect([orphans, clock.countTimers()]).to.deep.equal([before, 0]);
    });
  });
});
