import { expect } from 'chai';
import fc from 'fast-check';
import sinon from 'sinon';
import { parseConditions } from '../../../../src/features/conditions/index.ts';
import { ChangedDevices } from '../../../../src/hub/feed/changed-devices.ts';
import { DashboardFeed } from '../../../../src/hub/feed/dashboard-feed.ts';
import { summaryOf } from '../../../../src/hub/filters/fleet-device.ts';
import type { FleetDevice, FleetStore } from '../../../../src/hub/ports.ts';
import { LiveFilters } from '../../../../src/hub/filters/live-filters.ts';
import { Subscription } from '../../../../src/hub/subscriptions/subscription.ts';
import type { Caller } from '../../../../src/platform/context.ts';
import type { DeviceStatus, DeviceSummary, Presence } from '../../../../src/protocol/index.ts';
import { alone, condition, group } from '../../../support/conditions/any-rule.ts';
import type { PlainGroup } from '../../../support/conditions/referee.ts';
import {
  CUSTOM_KINDS,
  device as anyDevice,
  NOW,
  ORGS,
  SITES,
} from '../../../support/conditions/rule-fleet.ts';
import { CALLER, FeedClient, presence } from '../../../support/feed-client.ts';
import { quietLog } from '../../../support/quiet-log.ts';

/** What is stored of a device: its status follows from what was decided and whether it is connected. */
type Stored = Omit<FleetDevice, 'status' | 'presenceEpoch'> & { decided: DeviceStatus | undefined };
const asRead = ({ decided, ...device }: Stored): FleetDevice =>
  structuredClone({
    ...device,
    presenceEpoch: 0,
    status: decided ?? (device.presence.state === 'connected' ? 'online' : 'offline'),
  });

/** How far behind is written what the live side tells. */
const WRITTEN_AFTER_MS = 700;
const IDS = ['a', 'b', 'c', 'd'];
const RECORDED = [
  'siteId',
  'groupIds',
  'hostname',
  'displayName',
  'agentVersion',
  'enrolledAt',
  'tags',
  'osType',
  'osVersion',
  'osBuild',
  'architecture',
  'hardware',
  'network',
  'software',
  'customFields',
] as const;

type Step = { wait: number; id: string } & (
  | { kind: 'record'; parts: readonly (typeof RECORDED)[number][]; from: Stored }
  | { kind: 'moved'; orgId: string }
  | { kind: 'decided'; decided: DeviceStatus | undefined }
  | { kind: 'presence'; state: Presence['state'] }
  | { kind: 'metrics'; cpuPercent: number }
  | { kind: 'gone' | 'back' }
  | { kind: 'followed'; rule: PlainGroup }
);

const anyStored: fc.Arbitrary<Stored> = anyDevice.map(({ status: _status, ...drawn }) => ({
  ...drawn,
  id: '',
  partnerId: 'partner',
  siteId: SITES[ORGS.indexOf(drawn.orgId)] ?? '',
  presence: presence('disconnected'),
  decided: undefined,
}));
const anyRule = fc.oneof(condition.map(alone), group);
const anyStep: fc.Arbitrary<Step> = fc
  .record({ wait: fc.constantFrom(0, 10, 100, 240, 300, 900), id: fc.constantFrom(...IDS) })
  .chain((base) =>
    fc
      .oneof(
        {
          weight: 4,
          arbitrary: fc.record({
            kind: fc.constant('record' as const),
            parts: fc.subarray([...RECORDED], { minLength: 1, maxLength: 3 }),
            from: anyStored,
          }),
        },
        {
          weight: 1,
          arbitrary: fc.record({ kind: fc.constant('moved' as const), orgId: fc.constantFrom(...ORGS) }),
        },
        {
          weight: 1,
          arbitrary: fc.record({
            kind: fc.constant('decided' as const),
            decided: fc.constantFrom<(DeviceStatus | undefined)[]>(undefined, 'maintenance'),
          }),
        },
        {
          weight: 2,
          arbitrary: fc.record({
            kind: fc.constant('presence' as const),
            state: fc.constantFrom<Presence['state'][]>('connected', 'disconnected'),
          }),
        },
        {
          weight: 2,
          arbitrary: fc.record({
            kind: fc.constant('metrics' as const),
            cpuPercent: fc.constantFrom(0, 12.3, 50, 99.99),
          }),
        },
        { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('gone' as const, 'back' as const) }) },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant('followed' as const), rule: anyRule }) },
      )
      .map((step): Step => ({ ...base, ...step })),
  );

/** Found in one of 5,000 runs. */
const BACK_BEFORE_CONDITIONS_WERE_READ: [Stored[], PlainGroup[], Step[], number[]] = [
  fc.sample(anyStored, { seed: 1, numRuns: 3 }).map((one) => ({ ...one, software: ['Mozilla Firefox'] })),
  ['fire', 'fox', 'mozilla', 'chrome'].map((value) =>
    alone({ field: 'software.installed', operator: 'contains', value }),
  ),
  [
    { wait: 10, id: 'b', kind: 'gone' },
    { wait: 240, id: 'b', kind: 'back' },
  ],
  [400],
];

/** Found in one of 23 runs: it entered a list whose reading had to wait for software, which changed meanwhile. */
const CHANGED_BEFORE_SOFTWARE_WAS_READ: [Stored[], PlainGroup[], Step[], number[]] = [
  fc.sample(anyStored, { seed: 1, numRuns: 4 }).map((one) => ({ ...one, software: [] })),
  [
    alone({ field: 'siteId', operator: 'isNull' }),
    alone({ field: 'software.installed', operator: 'notContains', value: 'ÜNÏ' }),
    alone({ field: 'software.installed', operator: 'contains', value: 'fire' }),
    alone({ field: 'daysSinceLastSeen', operator: 'isNull' }),
  ],
  [
    {
      wait: 100,
      id: 'd',
      kind: 'followed',
      rule: alone({ field: 'osType', operator: 'equals', value: 'windows' }),
    },
    {
      wait: 300,
      id: 'd',
      kind: 'record',
      parts: ['hardware'],
      from: fc.sample(anyStored, { seed: 2, numRuns: 1 })[0]!,
    },
    {
      wait: 300,
      id: 'd',
      kind: 'record',
      parts: ['software'],
      from: { ...fc.sample(anyStored, { seed: 2, numRuns: 1 })[0]!, software: ['Ünïcode_Tool'] },
    },
  ],
  [400, 400, 200, 0],
];

describe('live filters with concurrent changes', function () {
  this.timeout(120_000);
  let clock: sinon.SinonFakeTimers;

  beforeEach(() => {
    clock = sinon.useFakeTimers({ now: NOW, toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
  });
  afterEach(() => clock.restore());

  const parsed = (rule: unknown) => {
    const answer = parseConditions(rule, { customKinds: CUSTOM_KINDS });
    if (!answer.ok) throw new Error(JSON.stringify(answer.faults));
    return answer.conditions;
  };
  const orgOnly: Caller = {
    ...CALLER,
    scope: 'organization',
    orgAccess: 'listed',
    orgIds: ORGS.slice(0, 1),
    orgId: ORGS[0] ?? null,
  };
  const mayReach = ({ scope, orgIds }: Caller, orgId: string) => scope === 'system' || orgIds.includes(orgId);

  it('finally show what their conditions match, each device in its current state', async () => {
    let shownAtAll = 0;
    let asked = 0;
    const run = async (drawn: Stored[], rules: PlainGroup[], steps: Step[], delays: number[]) => {
      let database = new Map<string, Stored>();
      for (const [n, one] of drawn.entries()) database.set(IDS[n] ?? '', { ...one, id: IDS[n] ?? '' });
      // What is so, of which the database is behind.
      const truth = new Map(database);
      const retired = new Map<string, Stored>();
      let reads = 0;
      const after = async <T>(found: T): Promise<T> => {
        reads += 1;
        await new Promise((resolve) => setTimeout(resolve, delays[reads % delays.length] ?? 0));
        return found;
      };
      const devices = (test: (one: Stored) => boolean, withSoftware: boolean) =>
        [...database.values()]
          .filter(test)
          .map(asRead)
          .map((one) => (withSoftware ? one : { ...one, software: [] }));
      const store: FleetStore = {
        rules: async (_caller, { conditions }) =>
          after({ key: JSON.stringify(conditions), rules: parsed(conditions) }),
        reach: async (caller) =>
          after(ORGS.filter((orgId) => mayReach(caller, orgId)).map((orgId) => ({ orgId, devices: 4 }))),
        slice: async (orgIds, { withSoftware }) =>
          after(devices(({ orgId }) => orgIds.includes(orgId), withSoftware)),
        devices: async (ids, { withSoftware }) => after(devices(({ id }) => ids.includes(id), withSoftware)),
      };
      const live = new LiveFilters({ store, refreshed: ({ device }) => feed.latest(device), log: quietLog });
      const feed: DashboardFeed = new DashboardFeed(live);
      const changes = new ChangedDevices({
        feed,
        log: quietLog,
        latest: ({ device }) => device,
        store: { summariesOf: async () => [] },
        live: { filters: live, store },
      });
      const following: { caller: Caller; rule: PlainGroup; client: FeedClient }[] = [];
      const begun: Promise<void>[] = [];
      const follow = async (rule: PlainGroup, caller: Caller) => {
        const client = new FeedClient();
        const subscription: Subscription = new Subscription({
          caller,
          filter: { conditions: rule },
          send: (delta) => client.take(delta),
          pages: () => live.pages(subscription),
        });
        following.push({ caller, rule, client });
        feed.add(subscription);
        await live.follow(subscription, (why) => {
          throw why;
        });
        const first = await subscription.begin();
        client.start(first.devices, first);
      };
      const told = (id: string, patch: Partial<DeviceSummary>, more: Partial<Stored>) => {
        if (!truth.has(id)) return;
        const laidOver = (records: Map<string, Stored>) => {
          const record = records.get(id);
          if (record !== undefined) records.set(id, { ...record, ...more });
        };
        laidOver(truth);
        feed.changed(id, patch);
        setTimeout(() => laidOver(database), WRITTEN_AFTER_MS);
      };
      const take = (step: Step, now: Stored | undefined) => {
        const { id } = step;
        const record = (more: Partial<Stored>) => {
          if (now === undefined) return;
          truth.set(id, { ...now, ...more });
          database.set(id, { ...(database.get(id) ?? now), ...more });
          changes.changed([id]);
        };
        const lastSeenAt = Date.now();
        const seen = { lastSeenAt: new Date(lastSeenAt).toISOString() };
        switch (step.kind) {
          case 'record':
            return record(Object.fromEntries(step.parts.map((part) => [part, step.from[part]])));
          case 'moved':
            return record({ orgId: step.orgId, siteId: SITES[ORGS.indexOf(step.orgId)] ?? '' });
          case 'decided':
            return record({ decided: step.decided });
          case 'presence':
            return told(
              id,
              { presence: presence(step.state), ...seen },
              { presence: presence(step.state), lastSeenAt },
            );
          case 'metrics': {
            const metrics = { cpuPercent: step.cpuPercent, ramPercent: 1, diskPercent: 1 };
            return told(id, { metrics, ...seen }, { metrics, lastSeenAt });
          }
          case 'gone':
            if (now === undefined) return;
            retired.set(id, now);
            truth.delete(id);
            database.delete(id);
            feed.left(id);
            return changes.recheckIfReading(id);
          case 'back': {
            const before = retired.get(id);
            if (now !== undefined || before === undefined) return;
            truth.set(id, before);
            database.set(id, before);
            return changes.changed([id]);
          }
          case 'followed':
            return void begun.push(follow(step.rule, CALLER));
          default:
            return step satisfies never;
        }
      };
      for (const rule of rules) {
        begun.push(follow(rule, CALLER), follow(rule, orgOnly));
      }
      for (const step of steps) {
        take(step, truth.get(step.id));
        await clock.tickAsync(step.wait);
      }
      // Time is looked at every 15 seconds.
      await clock.tickAsync(31_000);
      // Reading gives way to others, and where this process was slow it does so by a clock of its own.
      await Promise.all(begun);
      await clock.tickAsync(1000);
      for (const { caller, rule, client } of following) {
        const conditions = parsed(rule);
        const expected = [...truth.values()]
          .map(asRead)
          .filter((one) => mayReach(caller, one.orgId) && conditions.matches(one, Date.now()))
          .map(summaryOf);
        const byId = (a: DeviceSummary, b: DeviceSummary) => (a.id < b.id ? -1 : 1);
        expect([...client.devices.values()].sort(byId), JSON.stringify(rule)).to.deep.equal(
          expected.sort(byId),
        );
        expect(client.counts?.total).to.equal(expected.length);
        expect(client.faults).to.deep.equal([]);
        shownAtAll += expected.length;
        asked += truth.size;
      }
      database = new Map();
      changes.close();
      live.close();
      feed.close();
    };
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyStored, { minLength: 3, maxLength: 4 }),
        fc.array(anyRule, { minLength: 4, maxLength: 4 }),
        fc.array(anyStep, { maxLength: 20 }),
        fc.array(fc.constantFrom(0, 20, 200, 400), { minLength: 1, maxLength: 4 }),
        run,
      ),
      {
        numRuns: Number(process.env['LIVE_FILTER_RUNS'] ?? 200),
        examples: [BACK_BEFORE_CONDITIONS_WERE_READ, CHANGED_BEFORE_SOFTWARE_WAS_READ],
      },
    );
    // Rules that nothing or everything matches would show little.
    expect(shownAtAll / asked).to.be.within(0.2, 0.8);
  });

  describe('on a saved filter', () => {
    /** One device for each letter, and a subscriber to a filter by name that is read when the test says so. */
    function savedFilter() {
      const [drawn] = fc.sample(anyStored, { seed: 1, numRuns: 1 });
      const fleet = ['a', 'b', 'c'].map((id) => asRead({ ...drawn!, id, hostname: id }));
      const reads: ((hostname: string) => void)[] = [];
      const store: FleetStore = {
        rules: () =>
          new Promise((resolve) =>
            reads.push((hostname) => {
              const rules = parsed(alone({ field: 'hostname', operator: 'equals', value: hostname }));
              resolve({ key: hostname, rules });
            }),
          ),
        reach: async () => [{ orgId: drawn!.orgId, devices: fleet.length }],
        slice: async () => fleet,
        devices: async (ids) => fleet.filter(({ id }) => ids.includes(id)),
      };
      const live = new LiveFilters({ store, refreshed: ({ device }) => device, log: quietLog });
      const client = new FeedClient();
      const subscription: Subscription = new Subscription({
        caller: CALLER,
        filter: { filterId: 'saved' },
        send: (delta) => client.take(delta),
        pages: () => live.pages(subscription),
      });
      const follow = async () => {
        await live.follow(subscription, (why) => {
          throw why;
        });
        const first = await subscription.begin();
        client.start(first.devices, first);
      };
      return {
        follow,
        async change() {
          live.rulesChanged({ mayConcern: () => true });
          await clock.tickAsync(0);
        },
        /** Answers a read, by its number. */
        async answer(read: number, hostname: string) {
          reads[read]?.(hostname);
          await clock.tickAsync(1000);
        },
        shown: () => [...client.devices.keys()],
        close: () => live.close(),
      };
    }

    it('that is changed while it is read for the first time show what it selects now', async () => {
      const saved = savedFilter();
      const following = saved.follow();
      await clock.tickAsync(0);
      await saved.change();
      await saved.answer(0, 'a');
      await saved.answer(1, 'b');
      await following;
      expect(saved.shown()).to.deep.equal(['b']);
      saved.close();
    });

    it('that is changed twice show the last definition, whichever is read first', async () => {
      const saved = savedFilter();
      const following = saved.follow();
      await clock.tickAsync(0);
      await saved.answer(0, 'a');
      await following;
      expect(saved.shown()).to.deep.equal(['a']);
      await saved.change();
      await saved.change();
      await saved.answer(2, 'c');
      await saved.answer(1, 'b');
      // What was read of the definition before is read again.
      await saved.answer(3, 'c');
      expect(saved.shown()).to.deep.equal(['c']);
      saved.close();
    });
  });
});
