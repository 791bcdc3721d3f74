import { expect } from 'chai';
import fc from 'fast-check';
import sinon from 'sinon';
import { DashboardFeed } from '../../../../src/hub/feed/dashboard-feed.ts';
import type { PageReader } from '../../../../src/hub/subscriptions/device-pages.ts';
import type { FlowControl } from '../../../../src/hub/sockets/flow-controlled-client.ts';
import { FRAME_MS, Subscription } from '../../../../src/hub/subscriptions/subscription.ts';
import { newId } from '../../../../src/platform/ids.ts';
import type { DeviceSummary } from '../../../../src/protocol/index.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { CALLER, FeedClient, presence, summary } from '../../../support/feed-client.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const PAGE = 1000;

describe('a list with more devices than one answer contains', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let client: DashboardClient;

  before(async () => {
    app = await createTestApp({ graceMs: 50 });
    tenant = await buildTenant(app);
    await asOwner(
      app.database.ownerUrl,
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
      select gen_random_uuid(), $1, $2, 'DESK-' || n, 'linux', 'Debian 12', 'x64', '1.0.0', now() from generate_series(1, 2500) n`,
      [tenant.orgId, tenant.siteId],
    );
  });
  after(async () => app.close());
  beforeEach(async () => {
    client = await connectDashboard(app, tenant.admin.token);
  });
  afterEach(() => client.close());

  const followed = async (filter: object) => {
    const shown = new FeedClient();
    const snapshot = await client.subscribe(filter);
    shown.start(snapshot.devices, snapshot);
    let taken = 0;
    const take = () => {
      while (taken < client.deltas.length) shown.take(client.deltas[taken++]!);
      return client.deltas.some(({ complete }) => complete === true);
    };
    return { snapshot, shown, take };
  };

  for (const [what, filter] of Object.entries({
    'of a scope': {},
    'of a filter': {
      conditions: { operator: 'AND', conditions: [{ field: 'osType', operator: 'equals', value: 'linux' }] },
    },
  })) {
    it(`${what} is sent in parts: the answer, then frames, the last of which is marked`, async () => {
      const { snapshot, shown, take } = await followed(filter);
      expect([snapshot.devices.length, snapshot.complete]).to.deep.equal([PAGE, false]);
      expect(snapshot.counts.total).to.equal(PAGE);
      await eventually(take, (isComplete) => isComplete);
      expect(shown.faults).to.deep.equal([]);
      expect([shown.devices.size, shown.counts?.total]).to.deep.equal([2500, 2500]);
      expect(client.deltas.at(-1)?.complete).to.equal(true);
      for (const { entered } of client.deltas) expect(entered.length).to.be.at.most(100);
    });
  }

  it('includes devices that enter, change and leave while the parts are sent', async () => {
    const [online, gone] = [await buildDevice(app, tenant.orgId), await buildDevice(app, tenant.orgId)];
    const { shown, take } = await followed({});
    const [agent] = await Promise.all([
      connectDevice(app, online.token),
      app.call('DELETE', `/devices/${gone.deviceId}`, { token: tenant.admin.token }),
    ]);
    await eventually(take, (isComplete) => isComplete);
    await eventually(
      () => take() && shown.devices.get(online.deviceId)?.status,
      (status) => status === 'online',
    );
    await eventually(
      () => take() && shown.devices.has(gone.deviceId),
      (isShown) => !isShown,
    );
    expect(shown.faults).to.deep.equal([]);
    expect([shown.devices.size, shown.counts?.total]).to.deep.equal([2501, 2501]);
    agent.close();
  });

  it('of few devices is complete in the answer and marked as such', async () => {
    const few = await buildTenant(app);
    await buildDevice(app, few.orgId);
    client.close();
    client = await connectDashboard(app, few.admin.token);
    const { devices, complete } = await client.subscribe();
    expect([devices.length, complete]).to.deep.equal([1, true]);
  });
});

/** Pages of three by id, each as it was when its reading began, and there some time later. */
function pagesOf(truth: ReadonlyMap<string, DeviceSummary>, feed: DashboardFeed, readMs: number): PageReader {
  let after = '';
  return async () => {
    const ids = [...truth.keys()].sort().filter((id) => id > after);
    const read = ids.slice(0, 3).flatMap((id) => truth.get(id) ?? []);
    after = read.at(-1)?.id ?? after;
    await new Promise((resolve) => setTimeout(resolve, readMs));
    return { devices: read.map((device) => feed.latest(device)), isLast: read.length < 3 };
  };
}

describe('a list that is read in parts, with concurrent changes', function () {
  this.timeout(120_000);
  let clock: sinon.SinonFakeTimers;
  beforeEach(() => {
    clock = sinon.useFakeTimers({
      toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'Date', 'performance'],
    });
  });
  afterEach(() => clock.restore());

  it('finally shows the current state with correct counts and no gap, also to a slow client', async () => {
    const ids = Array.from({ length: 12 }, newId);
    const id = fc.constantFrom(...ids);
    const event = fc.record({
      wait: fc.constantFrom(0, 5, 60, 300),
      id,
      kind: fc.constantFrom('online', 'offline', 'enter', 'leave', 'reread', 'stall', 'read'),
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
          const flow: FlowControl = {
            get isReady() {
              return !isStalled;
            },
            get stalledMs() {
              return isStalled ? 10_000 : 0;
            },
            whenReady: (go) => {
              const look = () => (isStalled ? setTimeout(look, 10) : go());
              setTimeout(look, 0);
            },
            cutOff: () => shown.faults.push('cut off'),
          };
          const subscription = new Subscription({
            caller: CALLER,
            filter: {},
            flow,
            send: (delta) => shown.take(delta),
            pages: () => pagesOf(truth, feed, readMs),
          });
          feed.add(subscription);
          const begun = subscription.begin();
          await clock.tickAsync(readMs);
          const first = await begun;
          shown.start(first.devices, first);
          for (const { wait, id: one, kind } of events) {
            await clock.tickAsync(wait);
            const known = truth.get(one);
            if (kind === 'stall') isStalled = true;
            else if (kind === 'read') isStalled = false;
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
          await clock.tickAsync(20 * (readMs + FRAME_MS));
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
