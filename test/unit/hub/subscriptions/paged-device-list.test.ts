import { expect } from 'chai';
import fc from 'fast-check';
import { clock } from '../../../../src/clock.ts';
import { DashboardFeed } from '../../../../src/hub/feed/dashboard-feed.ts';
import type { PageReader } from '../../../../src/hub/subscriptions/pages.ts';
import { FRAME_MS, Subscription } from '../../../../src/hub/subscriptions/subscription.ts';
import type { FlowControl } from '../../../../src/hub/wire/flow-controlled-client.ts';
import { newId } from '../../../../src/platform/ids.ts';
import type { DeviceSummary } from '../../../../src/protocol/index.ts';
import { CALLER, FeedClient, presence, summary } from '../../../support/feed-client.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

interface Database {
  truth: ReadonlyMap<string, DeviceSummary>;
  feed: DashboardFeed;
  readMs: number;
  isAway: () => boolean;
}

/** Pages of three by id, each as it was when its reading began, and there some time later. */
function pagesOf({ truth, feed, readMs, isAway }: Database): PageReader {
  let after = '';
  return async () => {
    const ids = [...truth.keys()].sort().filter((id) => id > after);
    const read = ids.slice(0, 3).flatMap((id) => truth.get(id) ?? []);
    after = read.at(-1)?.id ?? after;
    await clock.sleep(readMs);
    if (isAway()) throw new Error('the database is away');
    return { devices: read.map((device) => feed.latest(device)), isLast: read.length < 3 };
  };
}

/** Until a list that could not be read is read again: that happened within the twelve seconds of all events. */
const LONGEST_PAUSE_MS = 10_000;

describe('a list that is read in parts, with concurrent changes', () => {
  const testClock = useTestClock({ isRunning: false });

  it('finally shows the current state with correct counts and no gap, also to a slow client', async () => {
    const ids = Array.from({ length: 12 }, newId);
    const id = fc.constantFrom(...ids);
    const event = fc.record({
      wait: fc.constantFrom(0, 5, 60, 300),
      id,
      kind: fc.constantFrom('online', 'offline', 'enter', 'leave', 'reread', 'stall', 'read', 'away', 'back'),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { maxLength: 40 }),
        fc.uniqueArray(id),
        fc.constantFrom(1, 40, 400),
        async (events, present, readMs) => {
          const truth = new Map(present.map((one) => [one, summary(one)]));
          const feed = new DashboardFeed();
          const shown = new FeedClient();
          let isStalled = false;
          let isAway = false;
          const flow: FlowControl = {
            get isReady() {
              return !isStalled;
            },
            get stalledMs() {
              return isStalled ? 10_000 : 0;
            },
            whenReady: (go) => {
              const look = () => void (isStalled ? clock.setTimeout(look, 10) : go());
              clock.setTimeout(look, 0);
            },
            cutOff: () => shown.faults.push('cut off'),
          };
          const subscription = new Subscription({
            caller: CALLER,
            filter: {},
            flow,
            send: (delta) => shown.take(delta),
            pages: () => pagesOf({ truth, feed, readMs, isAway: () => isAway }),
          });
          feed.add(subscription);
          const begun = subscription.begin();
          await testClock.advance(readMs);
          const first = await begun;
          shown.start(first.devices, first);
          for (const { wait, id: one, kind } of events) {
            await testClock.advance(wait);
            const known = truth.get(one);
            if (kind === 'stall') isStalled = true;
            else if (kind === 'read') isStalled = false;
            else if (kind === 'away') isAway = true;
            else if (kind === 'back') isAway = false;
            else if (kind === 'reread') subscription.reread();
            else if (kind === 'leave') {
              truth.delete(one);
              // Its connection ends with it.
              feed.changed(one, { presence: presence('disconnected') });
              feed.left(one);
            } else if (kind === 'enter' && known === undefined) {
              const device = summary(one);
              truth.set(one, device);
              feed.entered(device, 'partner');
            } else if (known !== undefined && kind !== 'enter') {
              const state = kind === 'online' ? 'connected' : 'disconnected';
              truth.set(one, { ...known, presence: presence(state), status: kind });
              feed.changed(one, { presence: presence(state) });
            }
          }
          isStalled = false;
          isAway = false;
          await testClock.advance(LONGEST_PAUSE_MS);
          await testClock.advance(20 * (readMs + FRAME_MS));
          expect(shown.faults).to.deep.equal([]);
          expect(new Map(shown.devices)).to.deep.equal(truth);
          expect(shown.counts?.total).to.equal(truth.size);
          feed.remove(subscription);
          feed.close();
        },
      ),
      { numRuns: 300 },
    );
  });
});
