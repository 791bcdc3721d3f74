import { expect } from 'chai';
import fc from 'fast-check';
import sinon from 'sinon';
import { FRAME_MS, Subscription } from '../../../../src/hub/subscriptions/subscription.ts';
import {
  DeviceChange,
  statusAfter,
  type DevicePatch,
} from '../../../../src/hub/subscriptions/device-change.ts';
import { CALLER, FeedClient, presence, summary } from '../../../support/feed-client.ts';
import type { DeviceCounts, DeviceStatus, DeviceSummary } from '../../../../src/protocol/index.ts';

/** What is so, applied one after the other. */
class Truth {
  readonly devices = new Map<string, DeviceSummary>();

  changed(id: string, { status, ...patch }: DevicePatch): void {
    const before = this.devices.get(id);
    if (before === undefined) return;
    const after = statusAfter(before.status, patch, status);
    this.devices.set(id, { ...before, ...patch, status: after });
  }

  get counts(): DeviceCounts {
    const byStatus: Partial<Record<DeviceStatus, number>> = {};
    for (const { status } of this.devices.values()) byStatus[status] = (byStatus[status] ?? 0) + 1;
    return { total: this.devices.size, byStatus };
  }
}

describe('the dashboard feed', () => {
  let clock: sinon.SinonFakeTimers;
  let client: FeedClient;
  let subscription: Subscription;
  const begin = () => {
    client = new FeedClient();
    subscription = new Subscription({ caller: CALLER, filter: {}, send: (delta) => client.take(delta) });
  };
  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    begin();
  });
  afterEach(() => clock.restore());
  const open = (...devices: DeviceSummary[]) => client.start(devices, subscription.start(devices));

  it('sends at most four frames a second, with the latest of each device', () => {
    open(summary('a'), summary('b'));
    for (let i = 1; i <= 100; i++) {
      subscription.changed(new DeviceChange('a', { lastSeenAt: `at ${i}` }));
      clock.tick(10);
    }
    clock.tick(FRAME_MS);
    expect(client.frames).to.be.within(3, 4 + 1);
    expect(client.devices.get('a')?.lastSeenAt).to.equal('at 100');
    expect(client.faults).to.deep.equal([]);
    clock.tick(10_000);
    expect(clock.countTimers()).to.equal(0);
  });

  it('hides a device that left while the initial state was being read', () => {
    subscription.left('a');
    open(summary('a'), summary('b'));
    clock.tick(FRAME_MS);
    expect([...client.devices.keys()]).to.deep.equal(['b']);
    expect(client.counts?.total).to.equal(1);
  });

  it('lets the later of two changes within a frame win, whether it is a status or a connection', () => {
    open(summary('a', 'maintenance'), summary('b', 'online'), summary('c', 'online'));
    subscription.changed(new DeviceChange('a', { status: 'online' }));
    subscription.changed(new DeviceChange('a', { presence: presence('disconnected') }));
    subscription.changed(new DeviceChange('b', { presence: presence('disconnected') }));
    subscription.changed(new DeviceChange('b', { status: 'maintenance' }));
    subscription.changed(new DeviceChange('c', { status: 'maintenance' }));
    subscription.changed(new DeviceChange('c', { presence: presence('disconnected') }));
    clock.tick(FRAME_MS);
    const statuses = ['a', 'b', 'c'].map((id) => client.devices.get(id)?.status);
    expect(statuses).to.deep.equal(['offline', 'maintenance', 'maintenance']);
  });

  it('sends nothing once it is stopped', () => {
    open(summary('a'));
    subscription.changed(new DeviceChange('a', { lastSeenAt: 'now' }));
    subscription.stop();
    subscription.changed(new DeviceChange('a', { lastSeenAt: 'later' }));
    clock.tick(10_000);
    expect([client.frames, clock.countTimers()]).to.deep.equal([0, 0]);
  });

  it('finally shows the current state with correct counts and no gap, after events in any order', () => {
    const id = fc.constantFrom('a', 'b', 'c', 'd');
    const status = fc.constantFrom<DeviceStatus>('online', 'offline', 'maintenance', 'quarantined');
    const patch = fc.oneof(
      fc
        .constantFrom('connected' as const, 'disconnected' as const)
        .map((state) => ({ presence: presence(state) })),
      status.map((decided) => ({ status: decided })),
      fc.nat(99).map((n) => ({ lastSeenAt: `at ${n}` })),
    ) as fc.Arbitrary<DevicePatch>;
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.record({ do: fc.constant('changed' as const), id, patch }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant('entered' as const), id, status }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant('left' as const), id }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant('frame' as const) }) },
    );
    type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;
    const run = (steps: readonly Step[], truth: Truth) => {
      for (const [i, action] of steps.entries()) {
        if (action.do === 'changed') {
          truth.changed(action.id, action.patch);
          subscription.changed(new DeviceChange(action.id, action.patch));
        } else if (action.do === 'entered') {
          const device = summary(action.id, action.status, `name ${i}`);
          truth.devices.set(device.id, device);
          subscription.entered(device);
        } else if (action.do === 'left') {
          truth.devices.delete(action.id);
          subscription.left(action.id);
        } else clock.tick(FRAME_MS);
      }
    };
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(id, status), { selector: ([of]) => of }),
        fc.array(step, { maxLength: 10 }),
        fc.nat(10),
        fc.array(step, { maxLength: 40 }),
        (first, early, readAt, later) => {
          begin();
          const truth = new Truth();
          for (const [of, is] of first) truth.devices.set(of, summary(of, is));
          // The first state is read somewhere among the early steps; what comes behind it is heard already.
          run(early.slice(0, readAt), truth);
          const devices = [...truth.devices.values()];
          run(early.slice(readAt), truth);
          client.start(devices, subscription.start(devices));
          run(later, truth);
          clock.tick(FRAME_MS);

          expect(client.faults).to.deep.equal([]);
          const byId = (a: DeviceSummary, b: DeviceSummary) => (a.id < b.id ? -1 : 1);
          expect([...client.devices.values()].sort(byId)).to.deep.equal(
            [...truth.devices.values()].sort(byId),
          );
          expect(client.counts).to.deep.equal(truth.counts);
          expect(clock.countTimers()).to.equal(0);
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('the status after a change', () => {
  it('follows presence only between online and offline, and otherwise the explicit status', () => {
    const all: DeviceStatus[] = [
      'online',
      'offline',
      'maintenance',
      'updating',
      'pending',
      'quarantined',
      'decommissioned',
    ];
    for (const before of all) {
      for (const state of ['connected', 'disconnected'] as const) {
        const follows = before === 'online' || before === 'offline';
        const expected = follows ? (state === 'connected' ? 'online' : 'offline') : before;
        expect(statusAfter(before, { presence: presence(state) }), before).to.equal(expected);
        for (const decided of all) {
          expect(statusAfter(before, { presence: presence(state) }, decided)).to.equal(decided);
        }
      }
      expect(statusAfter(before, { lastSeenAt: null }), before).to.equal(before);
    }
  });
});
