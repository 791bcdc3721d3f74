import { expect } from 'chai';
import { onePage } from '../../../../src/hub/subscriptions/pages.ts';
import { FRAME_MS, Subscription } from '../../../../src/hub/subscriptions/subscription.ts';
import { DeviceChange } from '../../../../src/hub/subscriptions/device-change.ts';
import type { FlowControl } from '../../../../src/hub/wire/flow-controlled-client.ts';
import type { DeviceSummary } from '../../../../src/protocol/index.ts';
import { CALLER, FeedClient, summary } from '../../../support/feed-client.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

/** A connection that takes what it is sent when the test says so. */
class TestFlow implements FlowControl {
  isReady = true;
  stalledMs = 0;
  cutOffs = 0;
  #waiting: (() => void)[] = [];

  whenReady(go: () => void): void {
    this.#waiting.push(go);
  }
  cutOff(): void {
    this.cutOffs += 1;
  }
  /** Takes what is there, and one message of each that waits. */
  take(): void {
    this.isReady = true;
    for (const go of this.#waiting.splice(0)) go();
  }
}

describe('a subscriber that reads slowly', () => {
  const testClock = useTestClock({ isRunning: false });
  let flow: TestFlow;
  let client: FeedClient;
  let subscription: Subscription;
  let stored: DeviceSummary[] | Error;

  afterEach(() => subscription.stop());

  const open = (...devices: DeviceSummary[]) => {
    flow = new TestFlow();
    client = new FeedClient();
    stored = devices;
    subscription = new Subscription({
      caller: CALLER,
      filter: {},
      flow,
      pages: () =>
        onePage(async () => {
          if (stored instanceof Error) throw stored;
          return stored;
        }),
      send(delta) {
        expect(flow.isReady, 'sent to somebody who is not ready').to.equal(true);
        flow.isReady = false;
        client.take(delta);
      },
    });
    client.start(devices, subscription.start(devices));
  };
  const seen = (id: string, lastSeenAt: string) => new DeviceChange(id, { lastSeenAt });
  const many = (count: number) => Array.from({ length: count }, (_value, at) => summary(`d${at}`));
  const changeAll = (count: number, lastSeenAt: string) =>
    subscription.changedTogether(Array.from({ length: count }, (_value, at) => seen(`d${at}`, lastSeenAt)));
  const takeAll = async () => {
    flow.take();
    await testClock.advance(FRAME_MS);
    for (let frame = 0; frame < 100; frame++) {
      flow.take();
      await new Promise((resolve) => setImmediate(resolve));
    }
  };

  it('gets in one frame what changed while it did not read, the latest state of each device', async () => {
    open(summary('d0'), summary('d1'));
    for (let at = 1; at <= 50; at++) changeAll(2, `at ${at}`);
    expect(client.frames).to.equal(1);
    await takeAll();
    expect(client.frames).to.equal(2);
    expect([...client.devices.values()].map(({ lastSeenAt }) => lastSeenAt)).to.deep.equal([
      'at 50',
      'at 50',
    ]);
    expect(client.faults).to.deep.equal([]);
  });

  it('gets many devices in several frames, each after it has taken the previous one', async () => {
    open(...many(250));
    changeAll(250, 'later');
    expect(client.frames).to.equal(1);
    await takeAll();
    expect(client.frames).to.equal(3);
    expect([...client.devices.values()].every(({ lastSeenAt }) => lastSeenAt === 'later')).to.equal(true);
    expect(client.faults).to.deep.equal([]);
  });

  it('is shown everything again when it was too far behind', async () => {
    open(...many(1500));
    changeAll(1500, 'first');
    flow.stalledMs = 10_000;
    changeAll(1500, 'second');
    // From here on nothing is kept for it.
    subscription.left('d0');
    subscription.entered(summary('new'));
    stored = [...many(1500).slice(1), summary('new')].map((device) => ({ ...device, lastSeenAt: 'third' }));
    flow.take();
    // While it is read, changes are noted again.
    subscription.changed(seen('d1', 'fourth'));
    subscription.left('d2');
    flow.stalledMs = 0;
    await takeAll();
    expect(client.faults).to.deep.equal([]);
    expect([client.devices.size, client.counts?.total]).to.deep.equal([1499, 1499]);
    expect(client.devices.get('d1')?.lastSeenAt).to.equal('fourth');
    expect(client.devices.get('d1499')?.lastSeenAt).to.equal('third');
    expect(client.devices.has('d0') || client.devices.has('d2')).to.equal(false);
    expect(client.devices.has('new')).to.equal(true);
    changeAll(1500, 'fifth');
    await takeAll();
    expect(client.devices.get('d1499')?.lastSeenAt).to.equal('fifth');
  });

  it('receives a long list completely although it reads slowly and everything keeps changing', async () => {
    flow = new TestFlow();
    flow.stalledMs = 10_000;
    client = new FeedClient();
    const all = many(3000);
    let passes = 0;
    subscription = new Subscription({
      caller: CALLER,
      filter: {},
      flow,
      pages() {
        let at = 0;
        passes += 1;
        return async () => {
          const devices = all.slice(at, (at += 1000)).map((device) => ({ ...device, lastSeenAt: 'last' }));
          return { devices, isLast: at >= all.length };
        };
      },
      send(delta) {
        flow.isReady = false;
        client.take(delta);
      },
    });
    const first = await subscription.begin();
    client.start(first.devices, first);
    expect(first.complete).to.equal(false);
    let frames = 0;
    for (; client.devices.size < all.length && frames < 100; frames += 1) {
      changeAll(3000, `at ${frames}`);
      flow.take();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(frames, 'frames until all are shown').to.be.within(20, 60);
    await takeAll();
    expect([...client.devices.values()].filter(({ lastSeenAt }) => lastSeenAt !== 'last')).to.deep.equal([]);
    expect(client.faults).to.deep.equal([]);
    expect(passes, 'what was not kept is read again, once').to.equal(2);
  });

  it('keeps its list while that cannot be read again, and is disconnected after half a minute', async () => {
    open(...many(1500));
    changeAll(1500, 'first');
    flow.stalledMs = 10_000;
    changeAll(1500, 'second');
    stored = new Error('the database is away');
    await takeAll();
    expect(flow.cutOffs).to.equal(0);
    subscription.changed(seen('d7', 'third'));
    await takeAll();
    expect(client.devices.get('d7')?.lastSeenAt).to.equal('third');
    const pass = async (seconds: number) => {
      for (let at = 0; at < seconds; at++) {
        await testClock.advance(1000 - FRAME_MS);
        await takeAll();
      }
    };
    await pass(20);
    expect(flow.cutOffs).to.equal(0);
    await pass(20);
    expect(flow.cutOffs).to.equal(1);
  });

  it('is disconnected at once when it may see other devices and the list cannot be read', async () => {
    open(...many(3));
    subscription.accessChanged();
    await takeAll();
    expect(flow.cutOffs).to.equal(0);
    stored = new Error('the database is away');
    subscription.reread();
    await takeAll();
    expect(flow.cutOffs).to.equal(0);
    subscription.accessChanged();
    await takeAll();
    expect(flow.cutOffs).to.equal(1);
  });

  it('is shown what it has missed when the list can be read again', async () => {
    open(...many(1500));
    changeAll(1500, 'first');
    flow.stalledMs = 10_000;
    changeAll(1500, 'second');
    stored = new Error('the database is away');
    await takeAll();
    stored = many(3).map((device) => ({ ...device, lastSeenAt: 'second' }));
    await testClock.advance(3000);
    await takeAll();
    expect([...client.devices.values()].map(({ lastSeenAt }) => lastSeenAt)).to.deep.equal([
      'second',
      'second',
      'second',
    ]);
    expect([flow.cutOffs, client.faults]).to.deep.equal([0, []]);
  });
});
