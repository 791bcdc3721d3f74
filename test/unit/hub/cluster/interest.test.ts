import { expect } from 'chai';
import fc from 'fast-check';
import { clock } from '../../../../src/clock.ts';
import {
  byRecipients,
  ClusterInterest,
  interestKeys,
  OwnInterest,
  type Tenant,
} from '../../../../src/hub/cluster/interest.ts';
import { JobAudience, JobFeed } from '../../../../src/hub/commands/job-feed.ts';
import type { HubMessage } from '../../../../src/hub/cluster/messages.ts';
import { ClusterFeed, FEED } from '../../../../src/hub/feed/cluster-feed.ts';
import { DeviceAnnouncements } from '../../../../src/hub/feed/device-event-handlers.ts';
import { DashboardFeed, RecentChanges } from '../../../../src/hub/feed/dashboard-feed.ts';
import type { DeviceSummary } from '../../../../src/protocol/index.ts';
import type { JobChange, PresenceRecord } from '../../../../src/hub/ports.ts';
import { ClusterEvents } from '../../../../src/platform/cluster/cluster-events.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

/** A bus between nodes of this process, with a delay for each node that messages come from. */
class DelayedBus {
  readonly sent: { from: string; to: string; message: HubMessage }[] = [];
  readonly #receivers = new Map<string, (from: string, message: HubMessage) => void>();
  readonly #lost: ((nodeId: string) => void)[] = [];
  readonly #delayMs: (from: string) => number;

  constructor(delayMs: (from: string) => number = () => 1) {
    this.#delayMs = delayMs;
  }

  join(nodeId: string, receive: (from: string, message: HubMessage) => void) {
    this.#receivers.set(nodeId, receive);
    const deliver = (to: string, message: HubMessage) => {
      this.sent.push({ from: nodeId, to, message });
      clock.setTimeout(() => this.#receivers.get(to)?.(nodeId, message), this.#delayMs(nodeId));
    };
    return {
      nodeId,
      send: async (to: string, message: HubMessage) => {
        deliver(to, message);
        return true;
      },
      broadcast: async (message: HubMessage) => {
        for (const to of this.#receivers.keys()) if (to !== nodeId) deliver(to, message);
      },
      onNodeLost: (handler: (nodeId: string) => void) => void this.#lost.push(handler),
    };
  }

  lose(nodeId: string): void {
    this.#receivers.delete(nodeId);
    for (const handler of this.#lost) handler(nodeId);
  }

  of(kind: string) {
    return this.sent.filter(({ message }) => message.kind === kind);
  }
}

interface Node {
  interest: ClusterInterest;
  own: { devices: OwnInterest; jobs: OwnInterest };
  events: ClusterEvents;
}

function startNode(bus: DelayedBus, nodeId: string, nodes?: () => ReadonlySet<string> | undefined): Node {
  const joined = bus.join(nodeId, (from, message) => void events.receive(message, from));
  const events: ClusterEvents = new ClusterEvents(joined, () => {});
  const own = { devices: new OwnInterest(), jobs: new OwnInterest() };
  const interest = new ClusterInterest({ bus: joined, events, nodes, own });
  interest.start();
  return { interest, own, events };
}

const X: Tenant = { orgId: 'org-x', partnerId: 'partner-p' };
const Y: Tenant = { orgId: 'org-y', partnerId: 'partner-p' };
const Z: Tenant = { orgId: 'org-z', partnerId: 'partner-q' };
const list = (recipients: 'all' | ReadonlySet<string>) =>
  recipients === 'all' ? recipients : [...recipients].sort();

describe('the nodes that are sent a live change', () => {
  const time = useTestClock({ isRunning: false });
  let bus: DelayedBus;
  let started: ClusterInterest[];
  const start = (nodeId: string, nodes?: () => ReadonlySet<string> | undefined) => {
    const node = startNode(bus, nodeId, nodes);
    started.push(node.interest);
    return node;
  };
  beforeEach(() => {
    bus = new DelayedBus();
    started = [];
  });
  afterEach(() => {
    for (const interest of started) interest.close();
  });

  it('are those that show its organization, its partner or everything', async () => {
    const [a, b, c, d] = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((nodeId) => start(nodeId));
    b?.own.devices.add(['org-x']);
    c?.own.devices.add(['partner-p']);
    d?.own.devices.add(['*']);
    await time.advance(10);
    const sees = (tenant: Tenant | undefined) => list(a?.interest.recipients('devices', tenant) ?? 'all');
    expect([sees(X), sees(Y), sees(Z), sees(undefined)]).to.deep.equal([
      ['b', 'c', 'd'],
      ['c', 'd'],
      ['d'],
      ['b', 'c', 'd'],
    ]);
    expect(list(a?.interest.recipients('jobs', X) ?? 'all')).to.deep.equal([]);
    expect(a?.interest.isNeeded('jobs', undefined)).to.equal(false);
  });

  it('are all if it concerns more than half of them: one message costs less than many', async () => {
    const [a, b, c] = ['a', 'b', 'c', 'd'].map((nodeId) => start(nodeId));
    b?.own.devices.add(['org-x']);
    await time.advance(10);
    expect(list(a?.interest.recipients('devices', X) ?? 'all')).to.deep.equal(['b']);
    c?.own.devices.add(['org-x']);
    await time.advance(10);
    expect(a?.interest.recipients('devices', X)).to.equal('all');
  });

  it('include a node at once, and leave it out some time after its last client has gone', async () => {
    const [a, b] = ['a', 'b', 'c', 'd'].map((nodeId) => start(nodeId));
    await time.advance(10);
    const end = b?.own.devices.add(['org-x', 'org-y']);
    await time.advance(5);
    const announced = () => bus.of('interest').filter(({ from, to }) => from === 'b' && to === 'a').length;
    const before = announced();
    expect(list(a?.interest.recipients('devices', Y) ?? 'all')).to.deep.equal(['b']);
    end?.();
    end?.();
    // The page was loaded again.
    const endAgain = b?.own.devices.add(['org-x']);
    await time.advance(100);
    expect(announced()).to.equal(before);
    endAgain?.();
    await time.advance(11_000);
    expect(a?.interest.isNeeded('devices', X)).to.equal(false);
  });

  it('include nodes of a release that announces nothing, and those whose announcements stay away', async () => {
    const alive = () => new Set(['a', 'b', 'old', 'c', 'd', 'e']);
    const a = start('a', alive);
    for (const nodeId of ['b', 'c', 'd', 'e']) start(nodeId);
    await time.advance(1500);
    expect(list(a.interest.recipients('devices', X))).to.deep.equal(['old']);
    expect(a.interest.isNeeded('devices', Z)).to.equal(true);
    for (const interest of started.slice(1)) interest.close();
    await time.advance(40_000);
    expect(a.interest.recipients('devices', X)).to.equal('all');
  });

  it('are all while the live nodes are not known, and after Redis was away until each has announced again', async () => {
    let alive: Set<string> | undefined;
    const a = start('a', () => alive);
    const b = start('b');
    start('c');
    b.own.devices.add(['org-x']);
    await time.advance(1500);
    expect(a.interest.recipients('devices', Z)).to.equal('all');
    alive = new Set(['a', 'b', 'c']);
    await time.advance(1500);
    expect(list(a.interest.recipients('devices', Z))).to.deep.equal([]);
    a.interest.returned();
    expect(a.interest.recipients('devices', Z)).to.equal('all');
    await time.advance(1500);
    expect(list(a.interest.recipients('devices', Z))).to.deep.equal([]);
    expect(a.interest.isNeeded('devices', X)).to.equal(true);
  });

  it('do not include a node that is lost', async () => {
    const a = start('a');
    start('b').own.devices.add(['*']);
    await time.advance(10);
    expect(a.interest.isNeeded('devices', X)).to.equal(true);
    bus.lose('b');
    expect(a.interest.isNeeded('devices', X)).to.equal(false);
  });

  it('are known to a node that has just started', async () => {
    start('a').own.jobs.add(['org-x']);
    start('b');
    await time.advance(3000);
    const late = start('late');
    await time.advance(10);
    expect(list(late.interest.recipients('jobs', X))).to.deep.equal(['a']);
  });

  it('include a node that needs too many organizations to be listed, for everything', async () => {
    const a = start('a');
    start('b').own.devices.add(Array.from({ length: 1001 }, (_none, at) => `org-${at}`));
    start('c');
    await time.advance(10);
    expect(list(a.interest.recipients('devices', Z))).to.deep.equal(['b']);
  });

  it('do not change by nonsense on the bus', async () => {
    const a = start('a');
    for (const devices of [7, [7], Array.from({ length: 5000 }, String), { length: 3 }]) {
      expect(a.events.receive({ kind: 'interest', devices, jobs: [] }, 'evil')).to.equal(false);
    }
    expect(a.interest.isNeeded('devices', X)).to.equal(false);
  });

  it('follow from the scope of the caller', () => {
    const caller = { scope: 'partner', orgAccess: 'all', orgIds: [], partnerId: 'partner-p' } as const;
    expect(interestKeys(caller)).to.deep.equal(['partner-p']);
    expect(interestKeys(caller, 'org-x')).to.deep.equal(['org-x']);
    expect(interestKeys({ ...caller, orgAccess: 'listed', orgIds: ['org-x', 'org-y'] })).to.deep.equal([
      'org-x',
      'org-y',
    ]);
    expect(interestKeys({ ...caller, scope: 'system', partnerId: null })).to.deep.equal(['*']);
  });

  it('get the changes in their order, in as few parts as possible', () => {
    const of = new Map([
      [1, new Set(['b', 'c'])],
      [2, new Set<string>()],
      [3, new Set(['c', 'b'])],
    ]);
    const parts = byRecipients([1, 2, 3, 4, 1], (change) => of.get(change) ?? 'all');
    expect(parts.map(({ recipients, changes }) => [list(recipients), changes])).to.deep.equal([
      [
        ['b', 'c'],
        [1, 3, 1],
      ],
      ['all', [4]],
    ]);
  });
});

/** One node of a cluster that shows and changes devices, with a database that is written some time after a change. */
describe('a dashboard that opens while devices of another node change', () => {
  const time = useTestClock({ isRunning: false });
  const DEVICES = ['device-1', 'device-2', 'device-3'];

  interface Change {
    node: number;
    device: number;
    isConnected: boolean;
    atMs: number;
    writtenMs: number;
  }
  interface Run {
    changes: Change[];
    opensAtMs: number;
    readMs: number;
    delaysMs: readonly number[];
  }

  /** Returns what the dashboard shows when all is quiet, and what is true. */
  async function run({ changes, opensAtMs, readMs, delaysMs }: Run) {
    const delays = new Map(delaysMs.map((ms, at) => [`node-${at}`, ms]));
    const bus = new DelayedBus((from) => delays.get(from) ?? 1);
    const stored = new Map<string, { epoch: number; state: 'connected' | 'disconnected' }>();
    const nodes = delaysMs.map((_ms, at) => {
      const { interest, own, events } = startNode(bus, `node-${at}`);
      const ownFeed = new DashboardFeed(undefined, new RecentChanges(), own.devices);
      const feed = new ClusterFeed(ownFeed, {
        interest,
        send: (recipients, some) => events.sendTo(recipients, FEED, { events: some }),
      });
      events.subscribe(FEED, (message) => feed.receive(message.events));
      return { interest, own, ownFeed, feed };
    });
    await time.advance(5000);
    const [viewer] = nodes;
    if (viewer === undefined) throw new Error('There are no nodes.');
    const start = clock.monotonic();
    const reported = new Map<string, 'connected' | 'disconnected'>();
    const truth = new Map<string, string>();
    const owner = new Map<string, { node: number; epoch: number }>();
    const shown = new Map<string, string>();
    const seen: { deviceId: string; state: string }[] = [];
    let isRead = false;
    const showChange = viewer.ownFeed.changed.bind(viewer.ownFeed);
    let isOpen = false;
    viewer.ownFeed.changed = (deviceId, patch) => {
      showChange(deviceId, patch);
      const state = patch.presence?.state;
      if (!isOpen || state === undefined) return;
      if (isRead) shown.set(deviceId, state);
      else seen.push({ deviceId, state });
    };
    clock.setTimeout(() => {
      isOpen = true;
      viewer.own.devices.add(['org-x']);
      clock.setTimeout(() => {
        for (const deviceId of DEVICES) {
          const { epoch: storedEpoch, state } = stored.get(deviceId) ?? { epoch: 0, state: 'disconnected' };
          const read = { id: deviceId, status: 'offline', presence: { state } } as DeviceSummary;
          viewer.feed.stored({ device: read, epoch: storedEpoch });
          const device = viewer.ownFeed.latest(read);
          // A connection of this node is known from its actor.
          const held = owner.get(deviceId);
          const isHere = held?.node === 0 && truth.get(deviceId) === 'connected';
          shown.set(deviceId, isHere ? 'connected' : device.presence.state);
        }
        isRead = true;
        for (const { deviceId, state } of seen) shown.set(deviceId, state);
      }, readMs);
    }, opensAtMs);
    let epoch = 0;
    const inOrder = [...changes].sort((a, b) => a.atMs - b.atMs);
    for (const { node, device, isConnected, atMs, writtenMs } of inOrder) {
      clock.setTimeout(() => {
        const deviceId = DEVICES[device] ?? '';
        const held = owner.get(deviceId);
        // A device connects under a new claim, and only the node of its claim reports its end.
        if (isConnected) owner.set(deviceId, { node, epoch: ++epoch });
        else if (held?.node !== node) return;
        const own = owner.get(deviceId)?.epoch ?? 0;
        const state = isConnected ? 'connected' : 'disconnected';
        truth.set(deviceId, state);
        const record: PresenceRecord = {
          deviceId,
          epoch: own,
          presence: {
            state,
            since: new Date(clock.now()).toISOString(),
            reason: isConnected ? 'connected' : 'socket_closed',
          },
          lastSeenAt: null,
          lastIp: null,
          metrics: null,
          uptimeSeconds: null,
        };
        nodes[node]?.feed.reported(record, { tenant: X, isReporting: false, isHeartbeat: false });
        reported.set(`${deviceId} ${own}`, state);
        clock.setTimeout(() => {
          const before = stored.get(deviceId)?.epoch ?? 0;
          // The writer writes what was reported last.
          const last = reported.get(`${deviceId} ${own}`) ?? state;
          if (before <= own) stored.set(deviceId, { epoch: own, state: last });
        }, writtenMs);
      }, atMs);
    }
    await time.advance(20_000 - (clock.monotonic() - start));
    for (const { interest, feed, ownFeed } of nodes) {
      interest.close();
      feed.close();
      ownFeed.close();
    }
    return { shown: [...shown], truth: DEVICES.map((id) => [id, truth.get(id) ?? 'disconnected']) };
  }

  it('misses nothing, whatever the order in which changes, writes, reads and announcements come', async () => {
    const change = fc.record({
      node: fc.nat(2),
      device: fc.nat(2),
      isConnected: fc.boolean(),
      atMs: fc.nat(6000),
      writtenMs: fc.integer({ min: 1, max: 1000 }),
    });
    const property = fc.asyncProperty(
      fc.record({
        changes: fc.array(change, { maxLength: 12 }),
        opensAtMs: fc.nat(6000),
        readMs: fc.integer({ min: 1, max: 1000 }),
        delaysMs: fc.tuple(
          fc.integer({ min: 1, max: 900 }),
          fc.integer({ min: 1, max: 900 }),
          fc.integer({ min: 1, max: 900 }),
        ),
      }),
      async (input) => {
        const { shown, truth } = await run(input);
        expect(shown).to.deep.equal(truth);
      },
    );
    // A node still repeats the connection that it had before the device went to another node, which repeats nothing more.
    const overtaken = {
      changes: [
        { node: 2, device: 2, isConnected: true, atMs: 2, writtenMs: 1 },
        { node: 1, device: 0, isConnected: true, atMs: 0, writtenMs: 1 },
        { node: 1, device: 2, isConnected: true, atMs: 2, writtenMs: 1 },
        { node: 1, device: 2, isConnected: false, atMs: 2, writtenMs: 1 },
      ],
      opensAtMs: 5103,
      readMs: 1,
      delaysMs: [898, 1, 1] as [number, number, number],
    };
    await fc.assert(property, {
      numRuns: 150,
      examples: [[overtaken], [{ ...overtaken, readMs: 1000 }]],
    });
  });
});

describe('what a server is sent that begins to show something', () => {
  const time = useTestClock({ isRunning: false });
  let bus: DelayedBus;
  let viewer: Node;
  let other: Node;
  beforeEach(() => {
    bus = new DelayedBus();
    [viewer, other] = [startNode(bus, 'viewer'), startNode(bus, 'other')];
  });
  afterEach(() => {
    viewer.interest.close();
    other.interest.close();
  });
  const sentTo = (kind: string) => bus.of(kind).map(({ message }) => message);

  it('is the latest state of the jobs that have changed in the last moments, of its tenants', async () => {
    await time.advance(10);
    const jobs = new JobFeed(new JobAudience(other.own.jobs), other.events, other.interest);
    const job = (id: string, orgId: string, state: string) =>
      ({ update: { id, orgId, state }, partnerId: 'partner-p' }) as JobChange;
    jobs.changed([job('old', 'org-x', 'succeeded')]);
    await time.advance(7000);
    jobs.changed([job('job-1', 'org-x', 'running'), job('job-2', 'org-y', 'failed')]);
    await time.advance(1000);
    jobs.changed([job('job-1', 'org-x', 'succeeded')]);
    expect(sentTo('jobs')).to.deep.equal([]);
    viewer.own.jobs.add(['org-x']);
    await time.advance(10);
    expect(sentTo('jobs')).to.deep.equal([{ kind: 'jobs', jobs: [job('job-1', 'org-x', 'succeeded')] }]);
    jobs.changed([job('job-2', 'org-y', 'failed')]);
    await time.advance(10);
    expect(sentTo('jobs')).to.have.length(1);
    jobs.close();
  });

  it('names the devices whose records have changed, or which have entered or left', async () => {
    await time.advance(10);
    const announcements = new DeviceAnnouncements({
      events: other.events,
      interest: other.interest,
      disconnect: () => {},
      onChanged: undefined,
    });
    announcements.changed(['changed']);
    announcements.note('left');
    announcements.note('entered', X);
    announcements.note('entered elsewhere', Z);
    viewer.own.devices.add(['org-x']);
    await time.advance(10);
    const ids = () => sentTo('records_changed').map((message) => 'deviceIds' in message && message.deviceIds);
    expect(ids()).to.deep.equal([['changed', 'left', 'entered']]);
    viewer.own.devices.add(['org-z']);
    await time.advance(10);
    expect(ids()).to.deep.equal([['changed', 'left', 'entered'], ['entered elsewhere']]);
  });
});
