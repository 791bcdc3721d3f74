import { expect } from 'chai';
import { once } from 'node:events';
import fc from 'fast-check';
import {
  requestedDelay,
  heartbeatDelay,
  reconnectDelay,
  refusedDelay,
} from '../../../../src/agent/core/server-call.ts';
import type { LiveRunner, LiveHandlers } from '../../../../src/agent/work/live-runner.ts';
import { AgentError } from '../../../../src/agent/core/agent-error.ts';
import type { LogEntry } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { startScriptedHub, type ScriptedHub } from '../../../support/scripted-hub.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';
import {
  passWait,
  startTestAgent,
  temporaryFolder,
  type TestAgent,
} from '../../../support/agent/test-agent.ts';

const entry = (recordId: number, message = 'x'): LogEntry => ({
  recordId,
  timeCreated: '2026-11-20T10:00:00.000Z',
  level: 'information',
  source: 's',
  eventId: 0,
  message,
  category: 'c',
  user: null,
  computer: 'm',
});
const QUERY = { name: 'System', page: 1, limit: 500 };
const DEADLINE_MS = 30_000;

describe('the agent’s connection', () => {
  const testClock = useTestClock();
  let hub: ScriptedHub;
  let agent: TestAgent | undefined;
  let temporary: Awaited<ReturnType<typeof temporaryFolder>>;

  beforeEach(async () => {
    hub = await startScriptedHub();
    temporary = await temporaryFolder();
  });
  afterEach(async () => {
    await agent?.stop();
    await hub.close();
    await temporary.remove();
  });

  async function connect(live: LiveHandlers = {}, ackMs = 1000): Promise<LiveRunner> {
    agent = await startTestAgent({ server: hub.url, dataDir: temporary.folder, live, ackMs });
    return agent.queries;
  }
  const connected = (count = 1) =>
    eventually(
      () => hub.sockets.length,
      (length) => length === count,
    );
  const reconnected = (count: number) =>
    eventually(
      async () => {
        await passWait(agent!, testClock);
        return hub.sockets.length;
      },
      (length) => length === count,
    );
  const waiting = () =>
    eventually(
      () => agent!.states.at(-1)?.state,
      (state) => state === 'waiting',
    );
  /** The agent waits for at least that time since `from`, and makes no attempt before. */
  const staysAwayFor = async (ms: number, from: number) => {
    await waiting();
    const nextTryAt = Date.parse((lastWait() as { nextTryAt: string }).nextTryAt);
    expect(nextTryAt - from).to.be.at.least(ms);
    await testClock.advance(nextTryAt - testClock.now() - 100);
    expect(agent!.states.at(-1)!.state).to.equal('waiting');
  };
  const lastWait = () => agent!.states.filter((state) => state.state === 'waiting').at(-1)!;

  it('sends its handshake and a heartbeat at once', async () => {
    await connect({ 'eventlogs.list': async () => ({ logs: [] }) });
    await connected();
    expect(hub.sockets[0]!.handshake.auth).to.deep.equal({
      token: 't',
      protocol: 1,
      agentVersion: '1',
      capabilities: ['eventlogs.list'],
      bootId: 'b',
    });
    await eventually(
      () => hub.heartbeats.length,
      (count) => count === 1,
    );
  });

  it('sends heartbeats at the interval that the hub requests', async () => {
    hub.nextInMs = 50;
    await connect();
    await eventually(
      () => hub.heartbeats.length,
      (count) => count >= 4,
    );
  });

  it('hands on each answer to a heartbeat, with the upgrades and settings in it', async () => {
    hub.nextInMs = 20;
    await connect();
    const answers = await eventually(
      () => agent!.answers,
      ({ length }) => length >= 2,
    );
    expect(answers[0]).to.deep.include({ ok: true, nextInMs: 20, upgrade: [] });
  });

  it('reconnects when the hub has asked it to, not before', async () => {
    hub.refuse = { code: 'BUSY', retryAfterMs: 60_000 };
    const from = testClock.now();
    await connect();
    await eventually(
      () => hub.refusals.length,
      (count) => count === 1,
    );
    hub.refuse = undefined;
    await staysAwayFor(60_000, from);
    await reconnected(1);
    expect(hub.refusals).to.have.length(1);
  });

  it('waits long after a refusal that needs a person, and reports the reason', async () => {
    hub.refuse = { code: 'DECOMMISSIONED' };
    await connect();
    await waiting();
    const wait = lastWait() as { nextTryAt: string; reason: string };
    expect(Date.parse(wait.nextTryAt) - testClock.now()).to.be.greaterThan(60_000);
    expect(wait.reason).to.contain('DECOMMISSIONED');
  });

  it('disconnects on request of the hub, and reconnects after the requested time', async () => {
    await connect();
    await connected();
    const from = testClock.now();
    await hub.sockets[0]!.timeout(30_000).emitWithAck('hub:reconnect', {
      afterMs: 60_000,
      reason: 'draining',
    });
    hub.sockets[0]!.disconnect(true);
    await staysAwayFor(60_000, from);
    await reconnected(2);
    expect((lastWait() as { reason: string }).reason).to.equal('The server ended the connection (draining).');
  });

  it('closes the connection itself when the hub has announced the end but does not close it', async () => {
    await connect();
    await connected();
    await hub.sockets[0]!.timeout(30_000).emitWithAck('hub:reconnect', {
      afterMs: 100,
      reason: 'superseded',
    });
    await testClock.advance(1000);
    await reconnected(2);
    expect(hub.sockets[0]!.connected).to.equal(false);
  });

  it('survives a restart of the server, and does not reconnect at the same moment', async () => {
    await connect();
    await connected();
    const { port } = new URL(hub.url);
    await hub.close();
    await waiting();
    const downAt = testClock.monotonic();
    hub = await startScriptedHub(Number(port));
    await reconnected(1);
    expect(testClock.monotonic() - downAt).to.be.greaterThan(200);
  });

  it('never waits for ten seconds while the server cannot be reached, however long that lasts', async () => {
    const dataDir = temporary.folder;
    agent = await startTestAgent({ server: hub.url, dataDir, live: {}, random: () => 0.999 });
    await connected();
    const { port } = new URL(hub.url);
    await hub.close();
    const downAt = testClock.now();
    const waits: number[] = [];
    await eventually(
      async () => {
        const last = agent!.states.at(-1)!;
        if (last.state === 'waiting') {
          waits.push(Date.parse(last.nextTryAt) - testClock.now());
          await passWait(agent!, testClock);
        }
        return testClock.now() - downAt;
      },
      (ms) => ms > 81_000,
    );
    expect(Math.max(...waits)).to.be.within(2000, 8300);
    hub = await startScriptedHub(Number(port));
    await reconnected(1);
  });

  it('drops a connection on which heartbeats are not acknowledged', async function () {
    hub.answersHeartbeats = false;
    await connect({}, 100);
    await connected();
    // The agent, which is back at once, would send more heartbeats.
    hub.refuse = { code: 'BUSY', retryAfterMs: 600_000 };
    await eventually(
      async () => {
        await testClock.advance(1000);
        return hub.sockets[0]!.connected;
      },
      (is) => !is,
    );
    expect(hub.heartbeats).to.have.length(2);
  });

  it('runs commands concurrently and sends the rows of each under its own id, in order', async () => {
    await connect({
      'eventlogs.query': async ({ text }, { row }) => {
        for (let i = 0; i < 250; i++) await row(entry(i, text));
        return { scanned: 250, truncated: false };
      },
    });
    await connected();
    const ids = await Promise.all(
      ['a', 'b'].map((text) => hub.command('eventlogs.query', { ...QUERY, text }, { id: text })),
    );
    await eventually(
      () => hub.results.length,
      (count) => count === 2,
    );
    for (const id of ids) {
      const frames = hub.rows.filter((frame) => frame.id === id);
      expect(frames.map(({ seq }) => seq)).to.deep.equal(frames.map((_frame, index) => index));
      expect(frames.map(({ done }) => done)).to.deep.equal([...frames.slice(1).map(() => false), true]);
      const rows = frames.flatMap((frame) => frame.rows as LogEntry[]);
      expect(rows.map(({ recordId }) => recordId)).to.deep.equal(
        Array.from({ length: 250 }, (_value, index) => index),
      );
      expect(new Set(rows.map(({ message }) => message))).to.deep.equal(new Set([id]));
    }
    expect(hub.results.map(({ status, epoch }) => [status, epoch])).to.deep.equal([
      ['succeeded', 7],
      ['succeeded', 7],
    ]);
  });

  it('keeps frames small, however large the rows are', async () => {
    await connect({
      'eventlogs.query': async (_query, { row }) => {
        for (let i = 0; i < 40; i++) await row(entry(i, 'x'.repeat(32_000)));
        return { scanned: 40, truncated: false };
      },
    });
    await connected();
    await hub.command('eventlogs.query', QUERY);
    await eventually(
      () => hub.results.length,
      (count) => count === 1,
    );
    for (const frame of hub.rows) expect(JSON.stringify(frame).length).to.be.below(400_000);
    expect(hub.rows.flatMap(({ rows }) => rows)).to.have.length(40);
  });

  it('sends a result again until the hub has acknowledged it', async function () {
    hub.forgetAcks = 1;
    await connect({ 'eventlogs.list': async () => ({ logs: [] }) }, 300);
    await connected();
    const id = await hub.command('eventlogs.list', {});
    await eventually(
      async () => {
        await testClock.advance(500);
        return hub.results.length;
      },
      (count) => count === 2,
    );
    expect(hub.results.map((result) => result.id)).to.deep.equal([id, id]);
  });

  it('cancels a query at once', async () => {
    let aborted = 0;
    const runner = await connect({
      'eventlogs.tail': (_query, { signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            aborted = Date.now();
            resolve({});
          });
        }),
    });
    await connected();
    const id = await hub.command('eventlogs.tail', { name: 'System' });
    const askedAt = Date.now();
    await hub.sockets[0]!.timeout(30_000).emitWithAck('command:cancel', { id });
    await eventually(
      () => hub.results.length,
      (count) => count === 1,
    );
    expect(hub.results[0]!.status).to.equal('cancelled');
    expect(aborted - askedAt, 'long before the deadline').to.be.within(0, 15_000);
    await eventually(
      () => runner.running,
      (count) => count === 0,
    );
  });

  it('ends its queries when the connection is lost', async () => {
    let aborted = false;
    const runner = await connect({
      'eventlogs.tail': (_query, { signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            aborted = true;
            resolve({});
          });
        }),
    });
    await connected();
    await hub.command('eventlogs.tail', { name: 'System' });
    hub.sockets[0]!.disconnect(true);
    await eventually(
      () => aborted,
      (is) => is,
    );
    await eventually(
      () => runner.running,
      (count) => count === 0,
    );
  });

  /** The deadline and the limit of the agent are timers of one clock, so their order holds on a busy machine too. */
  function orderOf(deadlineMs: number): string[] {
    const order: string[] = [];
    testClock.setTimeout(() => order.push('the deadline'), deadlineMs);
    return order;
  }

  it('stops reading before the deadline, so that the partial result arrives', async () => {
    let order: string[] = [];
    let hasBegun = false;
    await connect({
      'eventlogs.query': async (_query, { timeUp, row }) => {
        await row(entry(1));
        hasBegun = true;
        await once(timeUp, 'abort');
        order.push('the handler has to end');
        return { scanned: 1, truncated: true };
      },
    });
    await eventually(
      () => agent!.answers.length,
      (count) => count === 1,
    );
    order = orderOf(DEADLINE_MS);
    await hub.command('eventlogs.query', QUERY, { deadlineMs: DEADLINE_MS });
    await eventually(
      () => hasBegun,
      (is) => is,
    );
    await testClock.advance(DEADLINE_MS / 2);
    expect(order, 'not at once').to.deep.equal([]);
    await testClock.advance(DEADLINE_MS / 2);
    await eventually(
      () => hub.results.length,
      (count) => count === 1,
    );
    expect(order).to.deep.equal(['the handler has to end', 'the deadline']);
    expect(hub.results[0]).to.deep.include({ status: 'succeeded', output: { scanned: 1, truncated: true } });
    expect(hub.rows.flatMap(({ rows }) => rows)).to.have.length(1);
  });

  for (const [clockIs, clockAheadMs] of [
    ['an hour behind', 3_600_000],
    ['an hour ahead', -3_600_000],
  ] as const) {
    it(`meets the server’s deadline with a clock that is ${clockIs}`, async () => {
      hub.clockAheadMs = clockAheadMs;
      let letAnswer = () => {};
      hub.heartbeatAnswer = new Promise((resolve) => {
        letAnswer = resolve;
      });
      let order: string[] = [];
      let hasBegun = false;
      await connect({
        'eventlogs.query': async (_query, { timeUp }) => {
          hasBegun = true;
          await once(timeUp, 'abort');
          order.push('the handler has to end');
          return { scanned: 1, truncated: true };
        },
      });
      await connected();
      order = orderOf(DEADLINE_MS);
      // Before the first heartbeat is answered: the deadline is understood as soon as it is.
      await hub.command('eventlogs.query', QUERY, { deadlineMs: DEADLINE_MS });
      await eventually(
        () => hasBegun,
        (is) => is,
      );
      letAnswer();
      await eventually(
        () => agent!.answers.length,
        (count) => count === 1,
      );
      await testClock.advance(DEADLINE_MS / 2);
      expect(order, 'not at once').to.deep.equal([]);
      await testClock.advance(DEADLINE_MS / 2);
      await eventually(
        () => hub.results.length,
        (count) => count === 1,
      );
      expect(order).to.deep.equal(['the handler has to end', 'the deadline']);
      const serverNow = Date.now() + clockAheadMs;
      expect(Date.parse(hub.results[0]!.finishedAt) - serverNow).to.be.within(0, DEADLINE_MS);
    });
  }

  it('reports unsupported types, invalid payloads and failures with their codes', async () => {
    await connect({
      'eventlogs.list': () => Promise.reject(new Error('disk on fire')),
      'eventlogs.get': () => Promise.reject(new AgentError('LOG_NOT_FOUND', 'no such log')),
    });
    await connected();
    const cases = [
      ['eventlogs.query', QUERY, 'CAPABILITY_MISSING'],
      ['format.disk', {}, 'CAPABILITY_MISSING'],
      ['toString', {}, 'CAPABILITY_MISSING'],
      ['eventlogs.get', { name: '' }, 'INVALID_PAYLOAD'],
      ['eventlogs.get', { name: 'x' }, 'LOG_NOT_FOUND'],
      ['eventlogs.list', {}, 'FAILED'],
    ] as const;
    for (const [type, payload, code] of cases) {
      const id = await hub.command(type, payload);
      const result = await eventually(
        () => hub.results.find((candidate) => candidate.id === id),
        (found) => found !== undefined,
      );
      expect([result?.status, result?.error?.code], type).to.deep.equal(['failed', code]);
    }
  });

  it('refuses invalid frames and continues', async () => {
    await connect({ 'eventlogs.list': async () => ({ logs: [] }) });
    await connected();
    const socket = hub.sockets[0]!;
    for (const [event, payload] of [
      ['command', null],
      ['command', { id: 1 }],
      ['command:cancel', 'x'],
      ['hub:reconnect', { afterMs: -1 }],
    ] as const) {
      expect((await socket.timeout(30_000).emitWithAck(event, payload)).ok, event).to.equal(false);
    }
    socket.emit('no:such:event', 1, 2, 3);
    await hub.command('eventlogs.list', {});
    await eventually(
      () => hub.results.length,
      (count) => count === 1,
    );
  });

  it('runs eight queries at once, and refuses a ninth as busy', async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await connect({ 'eventlogs.list': () => held.then(() => ({ logs: [] })) });
    await connected();
    for (let i = 0; i < 9; i++) await hub.command('eventlogs.list', {}, { id: `n${i}` });
    await eventually(
      () => hub.results.length,
      (count) => count === 1,
    );
    expect([hub.results[0]!.id, hub.results[0]!.error?.code]).to.deep.equal(['n8', 'BUSY']);
    release();
    await eventually(
      () => hub.results.length,
      (count) => count === 9,
    );
  });
});

describe('back-off', () => {
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

  it('grows with each failure up to about a minute, and is never zero', () => {
    fc.assert(
      fc.property(fc.nat(10_000), random, (tries, number) => {
        const delay = reconnectDelay(tries, () => number);
        expect(delay).to.be.within(250, 60_250);
        expect(reconnectDelay(tries, () => 0.999)).to.be.at.least(
          reconnectDelay(Math.max(0, tries - 1), () => 0.999),
        );
      }),
    );
  });

  it('spreads a fleet that was disconnected at once', () => {
    const delays = Array.from({ length: 1000 }, () => reconnectDelay(3));
    const inOneSecond = delays.filter((delay) => delay < 1250).length;
    expect(inOneSecond).to.be.below(250);
  });

  it('is at least the time that the server has asked for, and a little longer', () => {
    fc.assert(
      fc.property(fc.nat(10_000_000), random, (afterMs, number) => {
        expect(requestedDelay(afterMs, () => number)).to.be.within(afterMs, afterMs * 1.2 + 1);
      }),
    );
  });

  it('lasts minutes after a refusal that needs a person, and keeps heartbeats near their time', () => {
    fc.assert(
      fc.property(fc.nat(1000), random, (tries, number) => {
        expect(refusedDelay(tries, () => number)).to.be.within(90_000, 1_200_000);
        expect(heartbeatDelay(60_000, () => number)).to.be.within(54_000, 66_000);
      }),
    );
  });
});
