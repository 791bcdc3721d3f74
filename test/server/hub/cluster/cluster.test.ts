import { expect } from 'chai';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { InProcessDirectory } from '../../../../src/hub/cluster/directory.ts';
import { createHub, type Hub } from '../../../../src/hub/index.ts';
import type {
  DeviceStore,
  IdentityConflict,
  MisrecordedDevice,
  PresenceRecord,
} from '../../../../src/hub/ports.ts';
import type { HubMessage } from '../../../../src/hub/cluster/messages.ts';
import { InProcessCluster, type NodeBus } from '../../../../src/platform/cluster/node-bus.ts';
import { AppError } from '../../../../src/platform/errors.ts';
import { createMetrics, type Metrics } from '../../../../src/platform/metrics.ts';
import { eventually } from '../../../support/eventually.ts';
import { connectDevice, type FakeDevice, type Refused } from '../../../support/fake-device.ts';
import { testClock } from '../../../support/test-clock.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const QUERY = { name: 'System', page: 1, limit: 100 };
/** A query that names no time waits 30 s. */
const AT_ONCE_MS = 15_000;
const TIMEOUT_MS = 500;
const SUMMARY = { scanned: 3, truncated: false };
const entry = (recordId: number) => ({
  recordId,
  timeCreated: '2026-01-31T08:00:00.000Z',
  level: 'information',
  source: 'test',
  eventId: 1,
  message: `It happened ${recordId} times.`,
  category: 'none',
  user: null,
  computer: 'DESK-1',
});

interface Node {
  url: string;
  hub: Hub;
  bus: NodeBus<HubMessage>;
  log: Record<string, unknown>[];
  metrics: Metrics;
  /** Everything this node wrote of presence, in order. */
  written: PresenceRecord[];
  /** Devices of whose tokens it was to forget what it knows. */
  forgotten: string[];
  conflicts: IdentityConflict[];
  close(): Promise<void>;
}

/** Three nodes in one process on real sockets. Of a token, the text behind `device:` is the device. */
describe('a cluster of three hubs', () => {
  let nodes: [Node, Node, Node];
  let agents: FakeDevice[];
  let cluster: InProcessCluster<HubMessage>;
  let directory: InProcessDirectory;
  /** Under which all presence counts as stored. */
  let storedEpoch: number;
  let storedAsDisconnected: string[];
  /** Presence is written when this resolves. */
  let database: Promise<void>;

  /** @param lost  what the database still has as connected to an earlier run of the node */
  async function startNode(
    nodeId: string,
    lost: Awaited<ReturnType<DeviceStore['markLost']>> = [],
  ): Promise<Node> {
    const httpServer = createServer();
    const bus = cluster.join(nodeId);
    const { log, lines } = recordingLog();
    const metrics = createMetrics();
    const written: PresenceRecord[] = [];
    const forgotten: string[] = [];
    const conflicts: IdentityConflict[] = [];
    const hub = createHub({
      proxyTrust: { proxies: undefined, cfConnectingIp: false },
      httpServer,
      nodeId,
      bus,
      directory,
      heartbeatSeconds: 60,
      graceMs: 100,
      log,
      metrics,
      credentials: {
        verify: async (token) => ({
          ok: true,
          identity: {
            deviceId: token.slice('device:'.length),
            orgId: 'org',
            siteId: 'site',
            partnerId: 'partner',
            machine: { osType: 'linux', architecture: 'x64', autoUpdate: true, canUpgrade: true },
          },
        }),
        forget: (deviceIds) => void forgotten.push(...[deviceIds].flat()),
        lapsed: async () => [],
      },
      ledger: {
        take: async () => ({ dispatched: [], cancelled: [], changed: [] }),
        record: async () => [],
        undelivered: async () => [],
        sweep: async () => [],
        jobs: async () => [],
      },
      people: {
        authenticate: () => Promise.reject(new AppError('unauthenticated', 'Nobody.')),
        countUse: async () => {},
      },
      store: {
        async recordPresence(records) {
          await database;
          written.push(...records);
        },
        recordFacts: async () => [],
        recordConflict: async (conflict) => void conflicts.push(conflict),
        recordReports: async () => {},
        reporting: async () => [],
        markLost: async () => lost,
        greatestEpoch: async () => 0,
        misrecorded: async (claims) =>
          claims.flatMap(({ deviceId, epoch }): MisrecordedDevice[] => {
            if (epoch < storedEpoch) return [{ deviceId, difference: 'outdated' }];
            return storedAsDisconnected.includes(deviceId) ? [{ deviceId, difference: 'disconnected' }] : [];
          }),
        askable: async () => new Map(),
        found: async () => [],
        summaries: async () => [],
        summariesOf: async () => [],
      },
    });
    await hub.start();
    await new Promise<void>((resolve) => httpServer.listen(0, '127.0.0.1', resolve));
    const { port } = httpServer.address() as AddressInfo;
    return {
      url: `http://127.0.0.1:${port}`,
      hub,
      bus,
      log: lines,
      metrics,
      written,
      forgotten,
      conflicts,
      close: () => hub.close(),
    };
  }

  beforeEach(async () => {
    agents = [];
    database = Promise.resolve();
    storedEpoch = 0;
    storedAsDisconnected = [];
    cluster = new InProcessCluster();
    directory = new InProcessDirectory();
    nodes = [await startNode('north'), await startNode('east'), await startNode('west')];
  });
  afterEach(async () => {
    for (const agent of agents) agent.close();
    for (const node of nodes) await node.close();
  });

  it('accept fewer agents while the database is late, and as many as before when it is not', async () => {
    const [north] = nodes;
    const perSecond = async () => {
      const gauge = north.metrics.registry.getSingleMetric('muster_admission_per_second');
      return (await gauge?.get())?.values[0]?.value;
    };
    let answer = () => {};
    database = new Promise((resolve) => (answer = resolve));
    await connect(north, 'device-1');
    expect(await perSecond()).to.equal(500);
    await testClock.advance(12_000);
    expect(await perSecond()).to.be.below(100);
    answer();
    await north.hub.settle();
    await testClock.advance(25_000);
    expect(await perSecond()).to.equal(500);
    // Other tests compare with the machine's clock.
    testClock.jump(-37_000);
  });

  it('claim a device again of which the database has a greater epoch, after Redis was away', async () => {
    const [north, east] = nodes;
    await connect(north, 'device-1');
    await connect(east, 'device-2');
    await north.hub.settle();
    const epochOf = () => north.written.filter(({ deviceId }) => deviceId === 'device-1').at(-1)?.epoch ?? 0;
    const first = epochOf();
    storedEpoch = first + 1_000_000;
    directory.epochSeen(storedEpoch);
    // Another node has claimed this one since: its claim must stay.
    const stolen = await directory.claim('device-2', 'west');
    north.hub.republish();
    east.hub.republish();
    await testClock.advance(11_000);
    testClock.jump(-11_000);
    await north.hub.settle();
    expect(epochOf()).to.be.above(storedEpoch);
    expect(await directory.find('device-1')).to.deep.equal({ nodeId: 'north', epoch: epochOf() });
    expect(await directory.find('device-2')).to.deep.equal({ nodeId: 'west', epoch: stolen.epoch });
    expect(agents[0]?.socket.connected).to.equal(true);
  });

  it('report a device again that is stored as disconnected, after Redis was away', async () => {
    const [north] = nodes;
    await connect(north, 'device-1');
    await connect(north, 'device-2');
    storedAsDisconnected = ['device-1'];
    north.hub.republish();
    await north.hub.settle();
    const before = north.written.length;
    await testClock.advance(11_000);
    testClock.jump(-11_000);
    await north.hub.settle();
    const since = north.written.slice(before).map(({ deviceId, presence }) => [deviceId, presence?.state]);
    expect(since).to.deep.equal([['device-1', 'connected']]);
  });

  it('leave a device to one of two that have claimed it under one epoch', async () => {
    const [north, east] = nodes;
    const first = await connect(north, 'device-1');
    await connect(east, 'device-1');
    await eventually(
      () => first.notices.map(({ reason }) => reason),
      (reasons) => reasons.includes('superseded'),
    );
    const before = await directory.find('device-1');
    north.hub.claimTied('device-1');
    north.hub.claimTied('device-of-no-node');
    expect(await directory.find('device-1')).to.deep.equal(before);
    east.hub.claimTied('device-1');
    const after = await eventually(
      () => directory.find('device-1'),
      (owner) => (owner?.epoch ?? 0) > (before?.epoch ?? 0),
    );
    expect(after?.nodeId).to.equal('east');
  });

  /** Connects a device and waits until its claim stands. */
  async function connect(node: Node, deviceId: string): Promise<FakeDevice> {
    const agent = await connectDevice(node, `device:${deviceId}`);
    agents.push(agent);
    await agent.heartbeat();
    return agent;
  }

  it('answers a query to any device on any node, with the rows as they are read', async () => {
    const held = await Promise.all(nodes.map((node, i) => connect(node, `device-${i}`)));
    for (const asking of nodes) {
      for (const [i, agent] of held.entries()) {
        const batches: number[][] = [];
        const answering = asking.hub.query(`device-${i}`, {
          type: 'eventlogs.query',
          payload: QUERY,
          onRows: (rows) => void batches.push(rows.map(({ recordId }) => recordId)),
        });
        const frame = await agent.nextCommand();
        expect(frame.payload).to.deep.equal(QUERY);
        await agent.rows(frame, [entry(3), entry(2)], 0);
        // It came before the end did.
        await eventually(
          () => batches.length,
          (count) => count === 1,
        );
        await agent.rows(frame, [entry(1)], 1);
        await agent.succeed(frame, SUMMARY);
        expect(await answering).to.deep.equal({ ok: true, output: SUMMARY });
        expect(batches).to.deep.equal([[3, 2], [1]]);
      }
    }
  });

  it('carries an action to the device on another node once, and its refusal back', async () => {
    const agent = await connect(nodes[0], 'device-0');
    const order = {
      type: 'services.control',
      payload: { name: 'nginx', action: 'restart' },
    } as const;
    const acting = nodes[2].hub.query('device-0', order);
    const frame = await agent.nextCommand();
    expect(frame.payload).to.deep.equal(order.payload);
    await agent.succeed(frame, { before: 'failed', after: 'running' });
    expect(await acting).to.deep.equal({ ok: true, output: { before: 'failed', after: 'running' } });
    const refused = nodes[1].hub.query('device-0', order);
    await agent.fail(await agent.nextCommand(), 'SERVICE_NOT_FOUND', 'There is none.');
    expect(await refused).to.deep.equal({
      ok: false,
      reason: 'agent',
      code: 'SERVICE_NOT_FOUND',
      message: 'There is none.',
    });
    expect(agent.commands).to.deep.equal([]);
  });

  describe('with two machines that use one token', () => {
    const onNode = (node: Node, bootId: string, serialNumber: string) =>
      connectDevice(node, 'device:device-1', { bootId, machine: { hostname: 'DESK', serialNumber } }).then(
        (agent) => {
          agents.push(agent);
          return agent;
        },
        (error: unknown) => (error as Refused).refusal,
      );

    it('lets the later one wait, on whichever node, while the first one is alive', async () => {
      const first = (await onNode(nodes[0], 'boot-a', 'SER-A')) as FakeDevice;
      await first.heartbeat();
      for (const node of nodes) {
        expect(await onNode(node, 'boot-b', 'SER-B')).to.deep.equal({
          code: 'IDENTITY_CONFLICT',
          retryAfterMs: 60_000,
        });
      }
      expect([first.socket.connected, first.notices]).to.deep.equal([true, []]);
      const [conflict] = nodes[1].conflicts;
      expect(conflict?.holder).to.include({ bootId: 'boot-a', serialNumber: 'SER-A' });
      expect(conflict?.other).to.include({ bootId: 'boot-b', serialNumber: 'SER-B' });

      first.close();
      await eventually(
        () => onNode(nodes[2], 'boot-b', 'SER-B'),
        (answer) => answer !== undefined && 'socket' in answer,
      );
    });

    it('lets a program that changes the node replace its own connection at once', async () => {
      await onNode(nodes[0], 'boot-a', 'SER-A');
      expect(await onNode(nodes[1], 'boot-a', 'SER-A')).to.have.property('socket');
      expect(nodes.flatMap(({ conflicts }) => conflicts)).to.deep.equal([]);
    });

    it('connects a machine whose holder is on a node that does not answer', async () => {
      await onNode(nodes[0], 'boot-a', 'SER-A');
      nodes[1].bus.send = async () => false;
      expect(await onNode(nodes[1], 'boot-b', 'SER-B')).to.have.property('socket');
    });
  });

  it('returns the same outcome as the owner of the device would', async () => {
    const agent = await connect(nodes[0], 'device-1');
    const ask = () => nodes[1].hub.query('device-1', { type: 'eventlogs.list', payload: {} });
    const failing = ask();
    await agent.fail(await agent.nextCommand(), 'ACCESS_DENIED', 'Not allowed.');
    expect(await failing).to.deep.equal({
      ok: false,
      reason: 'agent',
      code: 'ACCESS_DENIED',
      message: 'Not allowed.',
    });
    const open = Array.from({ length: 8 }, ask);
    await eventually(
      () => agent.commands.length,
      (count) => count === 8,
    );
    expect(await ask()).to.deep.equal({ ok: false, reason: 'busy' });
    agent.close();
    for (const answer of open) expect(await answer).to.deep.equal({ ok: false, reason: 'disconnected' });
    await eventually(ask, (answer) => !answer.ok && answer.reason === 'offline');
    const limited = await connectDevice(nodes[0], 'device:device-2', { capabilities: [] });
    agents.push(limited);
    const answer = await nodes[2].hub.query('device-2', { type: 'eventlogs.list', payload: {} });
    expect(answer).to.deep.equal({ ok: false, reason: 'capability_missing' });
  });

  it('retries an answer that could not be sent, and never sends one without all of its rows', async () => {
    const agent = await connect(nodes[0], 'device-1');
    const { bus } = nodes[0];
    const send = bus.send.bind(bus);
    // The node hears the others before they can hear it, as behind a loss of its Redis.
    const failFor = (kind: HubMessage['kind'], times: number) => {
      bus.send = async (to, message) => {
        if (message.kind !== kind || times-- <= 0) return send(to, message);
        if (times === 0) return false;
        throw new Error('away');
      };
    };
    const ask = () => nodes[1].hub.query('device-1', { type: 'eventlogs.query', payload: QUERY });

    failFor('answer', 2);
    const late = ask();
    await agent.succeed(await agent.nextCommand(), SUMMARY);
    expect(await late).to.deep.equal({ ok: true, output: SUMMARY });

    failFor('rows', 1);
    const incomplete = ask();
    const frame = await agent.nextCommand();
    await agent.rows(frame, [entry(1)]);
    await agent.succeed(frame, SUMMARY);
    expect(await incomplete).to.deep.equal({ ok: false, reason: 'unavailable' });
  });

  it('reports at once that no node owns a device', async () => {
    const startedAt = Date.now();
    const answer = await nodes[1].hub.query('device-1', { type: 'eventlogs.list', payload: {} });
    expect(answer).to.deep.equal({ ok: false, reason: 'offline' });
    expect(Date.now() - startedAt).to.be.below(AT_ONCE_MS);
  });

  it('cancels a query on another node and drops what its agent still sends', async () => {
    const agent = await connect(nodes[0], 'device-1');
    const client = new AbortController();
    const rows: unknown[] = [];
    const answering = nodes[1].hub.query('device-1', {
      type: 'eventlogs.tail',
      payload: { name: 'System' },
      signal: client.signal,
      onRows: (more) => void rows.push(...more),
    });
    const frame = await agent.nextCommand();
    await agent.rows(frame, [entry(1)]);
    await eventually(
      () => rows.length,
      (count) => count === 1,
    );
    client.abort();
    expect(await answering).to.deep.equal({ ok: false, reason: 'cancelled' });
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(frame.id),
    );
    await agent.rows(frame, [entry(2)], 1);
    await agent.succeed(frame, {});
    expect(rows).to.have.lengthOf(1);
  });

  it('sends no query whose caller has already cancelled it', async () => {
    const agent = await connect(nodes[0], 'device-1');
    for (const asking of [nodes[0], nodes[1]]) {
      // Gone before the question, and gone while the holder was looked up.
      for (const when of ['before', 'meanwhile']) {
        const client = new AbortController();
        if (when === 'before') client.abort();
        const answering = asking.hub.query('device-1', {
          type: 'eventlogs.list',
          payload: {},
          signal: client.signal,
          timeoutMs: 1000,
        });
        client.abort();
        expect(await answering, when).to.deep.equal({ ok: false, reason: 'cancelled' });
      }
    }
    await agent.heartbeat();
    expect(agent.commands.length).to.equal(agent.cancelled.length);
  });

  it('ends a query at its deadline, on the agent too', async () => {
    const agent = await connect(nodes[0], 'device-1');
    for (const asking of [nodes[0], nodes[1]]) {
      const startedAt = Date.now();
      const answering = asking.hub.query('device-1', {
        type: 'eventlogs.list',
        payload: {},
        timeoutMs: TIMEOUT_MS,
      });
      const frame = await agent.nextCommand();
      const deadline = Date.parse(frame.deadline);
      expect(deadline - TIMEOUT_MS, 'counted from the question').to.be.within(startedAt - 5, Date.now() + 5);
      expect(await answering).to.deep.equal({ ok: false, reason: 'timeout' });
      expect(Date.now() - startedAt).to.be.within(TIMEOUT_MS - 10, AT_ONCE_MS);
      await eventually(
        () => agent.cancelled,
        (ids) => ids.includes(frame.id),
      );
    }
  });

  it('lets no query wait for a lost node, at either end', async () => {
    const agent = await connect(nodes[0], 'device-1');
    const other = await connect(nodes[1], 'device-2');
    const ask = (node: Node, deviceId: string) =>
      node.hub.query(deviceId, { type: 'eventlogs.list', payload: {} });
    const toTheLost = [ask(nodes[1], 'device-1'), ask(nodes[2], 'device-1')];
    const ofTheLost = ask(nodes[0], 'device-2');
    const untouched = ask(nodes[2], 'device-2');
    await eventually(
      () => [agent.commands.length, other.commands.length],
      ([a, b]) => a === 2 && b === 2,
    );

    const startedAt = Date.now();
    // Like a crash: nothing else of the node is told.
    await nodes[0].bus.close();
    for (const answer of toTheLost) expect(await answer).to.deep.equal({ ok: false, reason: 'node_lost' });
    await nodes[0].close();
    expect((await ofTheLost).ok).to.equal(false);
    expect(Date.now() - startedAt).to.be.below(AT_ONCE_MS);
    const later = await ask(nodes[1], 'device-1');
    expect(later).to.deep.equal({ ok: false, reason: 'offline' });

    for (const frame of other.commands) await other.succeed(frame, { logs: [] });
    expect(await untouched).to.deep.equal({ ok: true, output: { logs: [] } });
  });

  it('ends the connection of a moved device on any node, and every node drops its token from the cache', async () => {
    const [moved, other] = [await connect(nodes[0], 'device-1'), await connect(nodes[1], 'device-2')];
    nodes[2].hub.devicesMoved(['device-1']);
    await eventually(
      () => [moved.socket.connected, ...nodes.map(({ forgotten }) => forgotten.join())],
      (state) => state.join('|') === 'false|device-1|device-1|device-1',
    );
    expect(other.socket.connected).to.equal(true);
    await connect(nodes[1], 'device-1');
  });

  it('ends it also when the other nodes cannot be reached at that moment', async () => {
    const moved = await connect(nodes[0], 'device-1');
    const { bus } = nodes[2];
    bus.broadcast = () => Promise.reject(new Error('away'));
    const send = bus.send.bind(bus);
    let failures = 1;
    bus.send = (to, message) => (failures-- > 0 ? Promise.reject(new Error('away')) : send(to, message));
    nodes[2].hub.devicesMoved(['device-1']);
    await eventually(
      () => moved.socket.connected,
      (connected) => !connected,
    );
  });

  it('lets the newest connection win across nodes: the first is notified, and later queries go to the second', async () => {
    const first = await connect(nodes[0], 'device-1');
    const asked = nodes[2].hub.query('device-1', { type: 'eventlogs.list', payload: {} });
    const before = await first.nextCommand();
    const second = await connect(nodes[1], 'device-1');
    await eventually(
      () => first.socket.connected,
      (connected) => !connected,
    );
    expect(first.notices.map(({ reason }) => reason)).to.deep.equal(['superseded']);
    expect(await asked).to.deep.equal({ ok: false, reason: 'disconnected' });
    expect([nodes[0].hub.connected, nodes[1].hub.connected]).to.deep.equal([0, 1]);

    for (const asking of nodes) {
      const answering = asking.hub.query('device-1', { type: 'eventlogs.list', payload: {} });
      const frame = await second.nextCommand();
      expect(frame.epoch).to.be.greaterThan(before.epoch);
      await second.succeed(frame, { logs: [] });
      expect(await answering).to.deep.equal({ ok: true, output: { logs: [] } });
    }

    // What the first node wrote, however late, carries the older claim, and no word of an end.
    await eventually(
      () => nodes[1].written.length,
      (count) => count > 0,
    );
    await nodes[0].close();
    const [late, current] = [nodes[0].written, nodes[1].written];
    expect(late.length).to.be.greaterThan(0);
    expect(Math.max(...late.map(({ epoch }) => epoch))).to.be.below(
      Math.min(...current.map(({ epoch }) => epoch)),
    );
    expect(late.every(({ presence }) => presence.state === 'connected')).to.equal(true);
    expect((await directory.find('device-1'))?.nodeId).to.equal('east');
  });

  it('follows a device from node to node, and releases it when it disconnects', async () => {
    for (let i = 0; i < 12; i++) await connect(nodes[i % 3]!, 'device-1');
    await eventually(
      () => nodes.map(({ hub }) => hub.connected),
      (connected) => connected.join() === '0,0,1',
    );
    expect((await directory.find('device-1'))?.nodeId).to.equal('west');
    agents.at(-1)?.close();
    await eventually(
      () => directory.find('device-1'),
      (holder) => holder === undefined,
    );
    expect(nodes.map(({ hub }) => hub.connected)).to.deep.equal([0, 0, 0]);
  });

  it('shows on the other nodes which devices its earlier run has left behind', async () => {
    const heard: HubMessage[] = [];
    const other = cluster.join('other');
    other.onMessage((_from, message) => void heard.push(message));
    const presence = {
      state: 'disconnected',
      since: '2026-01-31T08:00:00.000Z',
      reason: 'node_lost',
    } as const;
    const south = await startNode('south', [{ deviceId: 'device-0', presence, epoch: 7 }]);
    try {
      await south.hub.settle();
      const events = await eventually(
        () => heard.filter(({ kind }) => kind === 'feed'),
        ({ length }) => length > 0,
      );
      expect(events).to.deep.equal([
        {
          kind: 'feed',
          events: [{ type: 'changed', deviceId: 'device-0', epoch: 7, patch: { presence } }],
        },
      ]);
    } finally {
      await south.close();
      await other.close();
    }
  });

  it('leaves no claim for a connection that ended before it was claimed', async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const claim = directory.claim.bind(directory);
    directory.claim = async (deviceId, nodeId) => {
      await gate;
      return claim(deviceId, nodeId);
    };
    const agent = await connectDevice(nodes[0], 'device:device-1');
    agent.close();
    // The server has seen that connection end when it has let in a later one.
    (await connectDevice(nodes[0], 'device:later')).close();
    open();
    await eventually(
      () => nodes[0].hub.connected,
      (connected) => connected === 0,
    );
    expect(await directory.find('device-1')).to.equal(undefined);
    expect(nodes[0].written.some(({ presence }) => presence.state === 'connected')).to.equal(false);
  });

  describe('shows a device as gone whose new connection ends before its claim', () => {
    const shown = (deviceId: string) =>
      nodes
        .flatMap(({ written }) => written.filter((record) => record.deviceId === deviceId))
        .toSorted((a, b) => a.epoch - b.epoch)
        .at(-1)?.presence.state;

    for (const [deviceId, what, secondNode, fails] of [
      ['same-node', 'succeeds, on the same node', 0, false],
      ['other-node', 'succeeds, on another node', 2, false],
      ['failing', 'fails', 0, true],
    ] as const) {
      it(what, async () => {
        const [north] = nodes;
        const second = nodes[secondNode];
        const claim = directory.claim.bind(directory);
        await connect(north, deviceId);
        await eventually(
          () => shown(deviceId),
          (state) => state === 'connected',
        );
        let answer = () => {};
        const answered = new Promise<void>((resolve) => (answer = resolve));
        directory.claim = async (...asked) => {
          await answered;
          if (fails) throw new Error('the directory is away');
          return claim(...asked);
        };
        const again = await connectDevice(second, `device:${deviceId}`);
        again.close();
        await eventually(
          () => second.hub.connected,
          () => !again.socket.connected,
        );
        // The server has seen the connection end when it has answered a later one.
        directory.claim = claim;
        (await connectDevice(second, 'device:later')).close();
        answer();
        await eventually(
          () => shown(deviceId),
          (state) => state === 'disconnected',
        );
      });
    }
  });

  it('accepts a device although its previous owner cannot be notified', async () => {
    const [north, east] = nodes;
    await connect(north, 'device-1');
    const { send } = east.bus;
    east.bus.send = () => Promise.reject(new Error('the bus is away'));
    const agent = await connect(east, 'device-1');
    expect(agent.socket.connected).to.equal(true);
    expect(await directory.find('device-1')).to.include({ nodeId: 'east' });
    east.bus.send = send;
    agent.close();
    await eventually(
      () => directory.find('device-1'),
      (holder) => holder === undefined,
    );
  });

  it('lets the epochs decide when two claims cross', async () => {
    const claim = directory.claim.bind(directory);
    for (const older of [true, false]) {
      let open = () => {};
      const gate = new Promise<void>((resolve) => (open = resolve));
      let claimed = 0;
      directory.claim = async (deviceId, nodeId) => {
        const answer = await claim(deviceId, nodeId);
        claimed = answer.epoch;
        await gate;
        return answer;
      };
      const agent = await connectDevice(nodes[0], 'device:device-1');
      agents.push(agent);
      await eventually(
        () => claimed,
        (epoch) => epoch > 0,
      );
      await nodes[1].bus.send('north', {
        kind: 'superseded',
        deviceId: 'device-1',
        epoch: older ? claimed - 1 : claimed + 1,
      });
      await new Promise((resolve) => setTimeout(resolve, 30));
      expect(agent.socket.connected).to.equal(true);
      open();
      if (older) {
        expect((await agent.heartbeat()).ok).to.equal(true);
        expect(agent.socket.connected).to.equal(true);
      } else {
        await eventually(
          () => agent.socket.connected,
          (connected) => !connected,
        );
        expect(agent.notices.map(({ reason }) => reason)).to.deep.equal(['superseded']);
      }
    }
  });

  const invalidAnswers = {
    'an answer': (id: string): HubMessage => ({ kind: 'answer', id, output: { logs: 'none' } }),
    rows: (id: string): HubMessage => ({ kind: 'rows', id, rows: [{ level: 'loud' }] }),
  };
  for (const [what, message] of Object.entries(invalidAnswers)) {
    it(`ends a query when another node sends ${what} in an invalid format, and cancels it on the device`, async () => {
      const agent = await connect(nodes[0], 'device-1');
      const rogue = cluster.join('rogue');
      const rows: unknown[] = [];
      const answering = nodes[1].hub.query('device-1', {
        type: what === 'rows' ? 'eventlogs.query' : 'eventlogs.list',
        payload: what === 'rows' ? QUERY : {},
        onRows: (some) => void rows.push(...some),
      });
      const { id } = await agent.nextCommand();
      await rogue.send('east', message(id));
      expect(await answering).to.deep.equal({ ok: false, reason: 'unavailable' });
      expect(rows).to.deep.equal([]);
      await eventually(
        () => agent.cancelled,
        (cancelled) => cancelled.includes(id),
      );
      await rogue.close();
    });
  }

  it('refuses invalid messages on the bus and ignores answers that no query waits for', async () => {
    const agent = await connect(nodes[0], 'device-1');
    const rogue = cluster.join('rogue');
    const malformed: unknown[] = [
      null,
      'text',
      42,
      [],
      {},
      { kind: 'unknown' },
      { kind: 'ask', id: 1, deviceId: 'device-1' },
      {
        kind: 'ask',
        id: 'x',
        deviceId: 'device-1',
        type: 'agent.format-disk',
        payload: {},
        deadline: 0,
        maxRows: 1,
      },
      { kind: 'failure', id: 'x', failure: { reason: 'because' } },
      { kind: 'superseded', deviceId: 'device-1', epoch: 'latest' },
    ];
    const unexpected: HubMessage[] = [
      { kind: 'rows', id: 'unknown', rows: [1] },
      { kind: 'answer', id: 'unknown', output: {} },
      { kind: 'failure', id: 'unknown', failure: { reason: 'timeout' } },
      { kind: 'cancel', id: 'unknown', deviceId: 'device-1', failure: { reason: 'cancelled' } },
      { kind: 'superseded', deviceId: 'device-1', epoch: 1 },
      { kind: 'superseded', deviceId: 'nowhere', epoch: Number.MAX_SAFE_INTEGER },
    ];
    for (const message of [...malformed, ...unexpected]) await rogue.send('north', message as HubMessage);
    const refused = await eventually(
      () => nodes[0].log.filter(({ event }) => event === 'hub.bus_message_refused'),
      (lines) => lines.length === malformed.length,
    );
    expect(refused.every(({ from }) => from === 'rogue')).to.equal(true);
    expect(agent.socket.connected).to.equal(true);
    expect(agent.commands).to.deep.equal([]);

    const answering = nodes[1].hub.query('device-1', { type: 'eventlogs.list', payload: {} });
    await agent.succeed(await agent.nextCommand(), { logs: [] });
    expect((await answering).ok).to.equal(true);
    await rogue.close();
  });
});
