import { expect } from 'chai';
import sinon from 'sinon';
import type { HubMessage } from '../../../../src/hub/cluster/messages.ts';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import type { DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import type { ClusterFeed } from '../../../../src/hub/feed/cluster-feed.ts';
import type { DeviceStore } from '../../../../src/hub/ports.ts';
import { LostDevices } from '../../../../src/hub/presence/lost-devices.ts';
import type { NodeBus } from '../../../../src/platform/cluster/node-bus.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const PRESENCE = {
  state: 'disconnected',
  since: '2026-01-31T08:00:00.000Z',
  reason: 'node_lost',
} as const;

describe('marking the devices of a lost node', () => {
  let clock: sinon.SinonFakeTimers;
  let lost: LostDevices;
  let lose: (nodeId: string) => void;
  let asked: Parameters<DeviceStore['markLost']>[0][];
  let failures: number;
  let alive: ReadonlySet<string> | undefined;
  let marked: string[];
  let shown: unknown[][];
  let republished: number;
  let registry: ActorRegistry;
  let log: ReturnType<typeof recordingLog>;

  function start(nodes: (() => ReadonlySet<string> | undefined) | undefined): void {
    lost = new LostDevices({
      registry,
      nodes,
      log: log.log,
      store: {
        async markLost(which) {
          asked.push(which);
          if (failures-- > 0) throw new Error('the database is away');
          return marked.map((deviceId) => ({ deviceId, presence: PRESENCE, epoch: 7 }));
        },
      } as DeviceStore,
      feed: { changed: (...args: unknown[]) => void shown.push(args) } as unknown as ClusterFeed,
      bus: {
        nodeId: 'north',
        onNodeLost: (listener: typeof lose) => (lose = listener),
      } as unknown as NodeBus<HubMessage>,
    });
  }
  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    [asked, marked, shown] = [[], [], []];
    failures = 0;
    republished = 0;
    alive = new Set(['north']);
    registry = new ActorRegistry();
    log = recordingLog();
    start(() => alive);
  });
  afterEach(() => {
    lost.close();
    clock.restore();
  });
  const connect = (countsAsConnected: boolean) =>
    registry.put({
      deviceId: 'device-1',
      countsAsConnected,
      republish: () => void (republished += 1),
    } as DeviceActor);

  it('waits until presence of devices that came here is written', async () => {
    lose('south');
    await clock.tickAsync(999);
    expect(asked).to.deep.equal([]);
    await clock.tickAsync(1);
    expect(asked).to.deep.equal([{ of: 'south' }]);
  });

  it('shows them as disconnected under the epoch of their claim', async () => {
    marked = ['device-1'];
    connect(false);
    lose('south');
    await clock.tickAsync(1000);
    expect([shown, republished]).to.deep.equal([
      [['device-1', { presence: PRESENCE }, { epoch: 7, isForAll: true }]],
      0,
    ]);
  });

  it('reports those again that are connected here', async () => {
    marked = ['device-1', 'device-2'];
    connect(true);
    lose('south');
    await clock.tickAsync(1000);
    expect([shown.map(([id]) => id), republished]).to.deep.equal([['device-2'], 1]);
  });

  it('does not happen when the node is back', async () => {
    lose('south');
    alive = new Set(['north', 'south']);
    await clock.tickAsync(60_000);
    expect([asked, clock.countTimers()]).to.deep.equal([[], 0]);
  });

  it('is tried again after longer and longer times up to ten seconds, and logged once', async () => {
    failures = 13;
    lose('south');
    const times: number[] = [];
    for (let second = 1; second <= 90; second++) {
      const before = asked.length;
      await clock.tickAsync(1000);
      if (asked.length > before) times.push(second);
    }
    const waits = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10];
    let at = 1;
    expect(times).to.deep.equal([1, ...waits.map((wait) => (at += wait))].filter((time) => time <= 90));
    expect(log.lines.map(({ event, lostNodeId }) => [event, lostNodeId])).to.deep.equal([
      ['hub.lost_devices_not_marked', 'south'],
    ]);
  });

  it('leaves no timer when the server stops, also during an attempt', async () => {
    lose('south');
    lost.close();
    expect(clock.countTimers()).to.equal(0);
    start(() => alive);
    failures = 1;
    lose('south');
    clock.tick(1000);
    lost.close();
    await clock.tickAsync(60_000);
    expect([asked.length, clock.countTimers()]).to.deep.equal([1, 0]);
  });

  describe('that has taken over a device of this one and not written that', () => {
    const taken = { of: 'north', deviceIds: ['device-1'] };

    it('happens some seconds later, under the claim that dashboards have seen', async () => {
      marked = ['device-1'];
      lost.takenOver('device-1', 9);
      await clock.tickAsync(9000);
      expect(asked).to.deep.equal([]);
      await clock.tickAsync(30_000);
      expect(asked).to.deep.equal([taken]);
      expect(shown).to.deep.equal([['device-1', { presence: PRESENCE }, { epoch: 9, isForAll: true }]]);
      expect(clock.countTimers()).to.equal(0);
    });

    it('leaves time to write to what was taken over a moment ago', async () => {
      lost.takenOver('device-1', 9);
      await clock.tickAsync(9000);
      lost.takenOver('device-2', 9);
      await clock.tickAsync(1000);
      expect(asked).to.deep.equal([taken]);
      await clock.tickAsync(10_000);
      expect(asked.at(-1)).to.deep.equal({ of: 'north', deviceIds: ['device-2'] });
    });

    it('leaves out what has come back here', async () => {
      lost.takenOver('device-1', 9);
      connect(true);
      await clock.tickAsync(60_000);
      expect([asked, clock.countTimers()]).to.deep.equal([[], 0]);
    });

    it('is tried again while the database is away, and not after the server has stopped', async () => {
      failures = 1;
      lost.takenOver('device-1', 9);
      await clock.tickAsync(60_000);
      expect(asked).to.deep.equal([taken, taken]);
      expect(log.lines.map(({ event }) => event)).to.deep.equal(['hub.taken_over_not_compared']);
      lost.takenOver('device-1', 9);
      lost.close();
      expect(clock.countTimers()).to.equal(0);
    });
  });

  describe('that was lost while no node was running', () => {
    const settle = () => clock.tickAsync(0);

    it('happens once, as soon as the live nodes are known', async () => {
      alive = undefined;
      lost.markOrphans();
      await settle();
      expect(asked).to.deep.equal([]);
      alive = new Set(['north', 'east']);
      lost.markOrphans();
      lost.markOrphans();
      await settle();
      lost.markOrphans();
      await settle();
      expect(asked).to.deep.equal([{ allBut: ['north', 'east'] }]);
    });

    it('is tried again when it fails', async () => {
      failures = 1;
      lost.markOrphans();
      await settle();
      expect(log.lines.map(({ event }) => event)).to.deep.equal(['hub.orphans_not_marked']);
      lost.markOrphans();
      await settle();
      lost.markOrphans();
      await settle();
      expect(asked).to.have.length(2);
    });

    it('does not happen if there are no other nodes', async () => {
      start(undefined);
      lost.markOrphans();
      await settle();
      expect(asked).to.deep.equal([]);
      lose('south');
      await clock.tickAsync(1000);
      expect(asked).to.deep.equal([{ of: 'south' }]);
    });
  });
});
