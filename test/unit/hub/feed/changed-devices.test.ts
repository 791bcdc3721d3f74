import { expect } from 'chai';
import fc from 'fast-check';
import { clock } from '../../../../src/clock.ts';
import { ChangedDevices } from '../../../../src/hub/feed/changed-devices.ts';
import { DashboardFeed } from '../../../../src/hub/feed/dashboard-feed.ts';
import { Subscription } from '../../../../src/hub/subscriptions/subscription.ts';
import type {
  DevicesSubscribe,
  DeviceStatus,
  DeviceSummary,
  Presence,
} from '../../../../src/protocol/index.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import { CALLER, FeedClient, presence, summary } from '../../../support/feed-client.ts';

/** What is stored of a device: its status follows from what was decided and whether it is connected. */
interface Stored extends Omit<DeviceSummary, 'status'> {
  decided: DeviceStatus | undefined;
}
const shown = ({ decided, ...device }: Stored): DeviceSummary => ({
  ...device,
  status: decided ?? (device.presence.state === 'connected' ? 'online' : 'offline'),
});
const stored = (id: string, more: Partial<Stored> = {}): Stored => {
  const { status: _status, ...device } = summary(id);
  return { ...device, decided: undefined, ...more };
};

/** How far behind presence is written. */
const WRITTEN_AFTER_MS = 700;

describe('changed devices', () => {
  const testClock = useTestClock({ isRunning: false });
  let feed: DashboardFeed;
  let changes: ChangedDevices;
  let database: Map<string, Stored>;
  let reads: string[][];
  let readTakesMs: () => number;
  let failing: boolean;
  let log: ReturnType<typeof recordingLog>;

  const begin = () => {
    feed = new DashboardFeed();
    database = new Map();
    reads = [];
    readTakesMs = () => 20;
    failing = false;
    log = recordingLog();
    changes = new ChangedDevices({
      feed,
      log: log.log,
      latest: ({ device }) => device,
      store: {
        async summariesOf(ids) {
          reads.push([...ids]);
          const found = ids.flatMap((id) => database.get(id) ?? []).map(shown);
          await clock.sleep(readTakesMs());
          if (failing) throw new Error('away');
          return found.map((device) => ({ device, epoch: 0, partnerId: 'partner' }));
        },
      },
    });
  };
  const end = () => {
    changes.close();
    feed.close();
  };
  beforeEach(begin);
  afterEach(end);

  const watch = (filter: DevicesSubscribe = {}, caller = CALLER) => {
    const client = new FeedClient();
    const subscription = new Subscription({ caller, filter, send: (delta) => client.take(delta) });
    feed.add(subscription);
    const devices = [...database.values()]
      .map(shown)
      .filter(
        ({ orgId, siteId }) => (filter.orgId ?? orgId) === orgId && (filter.siteId ?? siteId) === siteId,
      );
    client.start(devices, subscription.start(devices));
    return client;
  };
  const change = (id: string, more: Partial<Stored>) => {
    database.set(id, { ...(database.get(id) ?? stored(id)), ...more });
    changes.changed([id]);
  };

  it('are read in one query for all subscribers, and not at all without subscribers', async () => {
    change('a', { displayName: 'Till' });
    await testClock.advance(1000);
    expect(reads).to.deep.equal([]);
    const clients = [watch(), watch(), watch({ siteId: 'site' })];
    for (const id of ['a', 'b', 'c']) change(id, { displayName: `Till ${id}` });
    change('a', { displayName: 'Till again' });
    await testClock.advance(1000);
    expect(reads).to.deep.equal([['a', 'b', 'c']]);
    for (const client of clients) {
      expect([...client.devices.values()].map(({ displayName }) => displayName)).to.deep.equal([
        'Till again',
        'Till b',
        'Till c',
      ]);
      expect(client.faults).to.deep.equal([]);
    }
  });

  it('leave one subscription and enter another when they move, and change in a third', async () => {
    database.set('a', stored('a', { siteId: 'north' }));
    const [north, south, all] = [watch({ siteId: 'north' }), watch({ siteId: 'south' }), watch()];
    change('a', { siteId: 'south' });
    await testClock.advance(1000);
    expect([north, south, all].map(({ devices }) => [...devices.keys()].join())).to.deep.equal([
      '',
      'a',
      'a',
    ]);
    expect(all.devices.get('a')?.siteId).to.equal('south');
    expect(north.counts).to.deep.equal({ total: 0, byStatus: {} });
    expect(south.counts).to.deep.equal({ total: 1, byStatus: { offline: 1 } });
  });

  it("are shown only within a subscriber's scope, and removed when they move out of it", async () => {
    const of = (orgId: string) =>
      watch({}, { ...CALLER, scope: 'organization', orgAccess: 'listed', orgIds: [orgId], orgId });
    const [ours, theirs] = [of('org'), of('other')];
    change('a', {});
    await testClock.advance(1000);
    expect([ours.devices.size, theirs.frames]).to.deep.equal([1, 0]);
    change('a', { orgId: 'other' });
    await testClock.advance(1000);
    expect([ours.devices.size, theirs.devices.size]).to.deep.equal([0, 1]);
  });

  it('are read again when the database did not answer', async () => {
    const client = watch();
    failing = true;
    change('a', {});
    await testClock.advance(1000);
    expect(client.devices.size).to.equal(0);
    expect(log.lines.map((line) => line['event'])).to.deep.equal(['hub.changed_devices_not_read']);
    failing = false;
    await testClock.advance(3000);
    expect([...client.devices.keys()]).to.deep.equal(['a']);
  });

  it('are read a thousand at a time', async () => {
    const client = watch();
    const ids = Array.from({ length: 2500 }, (_, i) => `d${i}`);
    for (const id of ids) database.set(id, stored(id));
    changes.changed(ids);
    await testClock.advance(20_000);
    expect(reads.map(({ length }) => length)).to.deep.equal([1000, 1000, 500]);
    expect(client.devices.size).to.equal(2500);
  });

  const IDS = ['a', 'b', 'c'];
  type Step = { wait: number; id: string } & (
    | {
        kind: 'record';
        siteId?: string;
        orgId?: string;
        displayName?: string;
        decided?: DeviceStatus | undefined;
      }
    | { kind: 'presence'; connected: boolean }
    | { kind: 'gone' | 'back' | 'enrolled' }
  );
  const anyStep: fc.Arbitrary<Step> = fc
    .record({ wait: fc.constantFrom(0, 10, 100, 240, 300, 900), id: fc.constantFrom(...IDS) })
    .chain((base) =>
      fc
        .oneof(
          fc.record({
            kind: fc.constant('record' as const),
            siteId: fc.constantFrom('north', 'south'),
            orgId: fc.constantFrom('org', 'other'),
            displayName: fc.constantFrom('x', 'y'),
            decided: fc.constantFrom<(DeviceStatus | undefined)[]>(undefined, undefined, 'maintenance'),
          }),
          fc.record({ kind: fc.constant('presence' as const), connected: fc.boolean() }),
          fc.record({ kind: fc.constantFrom('gone' as const, 'back' as const, 'enrolled' as const) }),
        )
        .map((step): Step => ({ ...base, ...step })),
    );

  it('are finally shown correctly to everyone, after any concurrent changes', async () => {
    const run = async (steps: Step[], delays: number[]) => {
      readTakesMs = () => delays[reads.length % delays.length] ?? 0;
      database = new Map(IDS.slice(0, 2).map((id) => [id, stored(id, { siteId: 'north' })]));
      // What is so, of which the database is behind.
      const truth = new Map(database);
      const filters: DevicesSubscribe[] = [{}, { siteId: 'north' }, { orgId: 'other' }];
      const clients = filters.map((filter) => watch(filter));
      const connection = (id: string, state: Presence['state']) => {
        const patch = { presence: presence(state) };
        const laidOver = (records: Map<string, Stored>) => {
          const record = records.get(id);
          if (record !== undefined) records.set(id, { ...record, ...patch });
        };
        laidOver(truth);
        feed.changed(id, patch);
        clock.setTimeout(() => laidOver(database), WRITTEN_AFTER_MS);
      };
      for (const step of steps) {
        const { id } = step;
        const now = truth.get(id);
        if (step.kind === 'record' && now !== undefined) {
          const { kind: _kind, wait: _wait, ...record } = step;
          truth.set(id, { ...now, ...record });
          change(id, record);
        } else if (step.kind === 'presence' && now !== undefined) {
          connection(id, step.connected ? 'connected' : 'disconnected');
        } else if (step.kind === 'gone' && now !== undefined) {
          truth.delete(id);
          database.delete(id);
          feed.left(id);
          changes.recheckIfReading(id);
          // Its connection ends with it.
          connection(id, 'disconnected');
        } else if (step.kind === 'back' && now === undefined) {
          truth.set(id, stored(id));
          change(id, {});
        } else if (step.kind === 'enrolled' && now === undefined) {
          truth.set(id, stored(id));
          database.set(id, stored(id));
          feed.entered(shown(stored(id)), 'partner');
          changes.recheckIfReading(id);
        }
        await testClock.advance(step.wait);
      }
      await testClock.advance(10_000);
      for (const [i, { orgId, siteId }] of filters.entries()) {
        const expected = [...truth.values()]
          .filter((one) => (orgId ?? one.orgId) === one.orgId && (siteId ?? one.siteId) === one.siteId)
          .map(shown);
        const byId = (a: DeviceSummary, b: DeviceSummary) => (a.id < b.id ? -1 : 1);
        expect([...clients[i]!.devices.values()].sort(byId)).to.deep.equal(expected.sort(byId));
        expect(clients[i]!.counts?.total).to.equal(expected.length);
        expect(clients[i]!.faults).to.deep.equal([]);
      }
    };
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyStep, { maxLength: 25 }),
        fc.array(fc.constantFrom(0, 20, 200, 400), { minLength: 1, maxLength: 4 }),
        async (steps, delays) => {
          // Subscriptions of earlier runs would be shown everything as well.
          end();
          begin();
          await run(steps, delays);
        },
      ),
      { numRuns: 300 },
    );
  });
});
