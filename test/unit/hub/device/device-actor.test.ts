import { expect } from 'chai';
import fc from 'fast-check';
import sinon from 'sinon';
import type { LiveQueryOutcome } from '../../../../src/hub/device/live-query.ts';
import { DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import type { DeviceLink } from '../../../../src/hub/device/actor-messages.ts';
import { type DeviceFacts, type PresenceRecord, NO_UPGRADE_OFFERS } from '../../../../src/hub/ports.ts';
import {
  COMMAND_TYPES,
  type CommandFrame,
  type CommandResult,
  type ErrorAck,
  type HeartbeatAck,
  type HubReconnect,
} from '../../../../src/protocol/index.ts';

const IDENTITY = {
  deviceId: 'device-1',
  orgId: 'org-1',
  siteId: 'site-1',
  partnerId: 'partner-1',
  machine: { osType: 'linux', architecture: 'x64', autoUpdate: true, canUpgrade: true },
} as const;
const GRACE_MS = 5000;
const NOW = Date.parse('2026-01-31T08:00:00Z');
const AT = '2026-01-31T08:00:00.000Z';
const ROW = {
  recordId: 1,
  timeCreated: AT,
  level: 'information',
  source: 'test',
  eventId: 1,
  computer: 'DESK-1',
  message: 'It happened.',
  category: 'none',
  user: null,
};

interface Scene {
  actor: DeviceActor;
  sent: CommandFrame[];
  cancelled: string[];
  closed: (HubReconnect | undefined)[];
  presence: PresenceRecord[];
  facts: DeviceFacts[];
  failed: unknown[];
  gone: number;
  /** How each question ended, as often as it was told. */
  settled: Map<string, LiveQueryOutcome[]>;
  rows: Map<string, unknown[]>;
  ask(id: string, more?: { maxRows?: number }): boolean;
  result(id: string, more?: Partial<CommandResult>): void;
  give(id: string, rows: unknown[]): void;
}

/** An actor over a link that only takes notes, and breaks where it is told to. */
function scene(
  options: {
    breaks?: ReadonlySet<keyof DeviceLink>;
    capabilities?: string[];
    connectedSince?: number;
    earlierEpoch?: number;
  } = {},
): Scene {
  const { breaks = new Set(), capabilities = [...COMMAND_TYPES], connectedSince, earlierEpoch = 0 } = options;
  const on = <T>(what: keyof DeviceLink, note: (value: T) => void) => {
    return (value: T) => {
      note(value);
      if (breaks.has(what)) throw new Error(`${what} is broken`);
    };
  };
  const notes: Omit<Scene, 'actor'> = {
    sent: [],
    cancelled: [],
    closed: [],
    presence: [],
    facts: [],
    failed: [],
    gone: 0,
    settled: new Map(),
    rows: new Map(),
    ask(id, { maxRows = 1000 } = {}) {
      notes.settled.set(id, []);
      notes.rows.set(id, []);
      return actor.post({
        kind: 'query',
        query: {
          id,
          type: 'eventlogs.query',
          payload: { name: 'System' },
          deadline: NOW + 30_000,
          maxRows,
          onRows: (rows) => void notes.rows.get(id)?.push(...rows),
          settle: (outcome) => void notes.settled.get(id)?.push(outcome),
        },
      });
    },
    result(id, more = {}) {
      const { epoch } = actor;
      const output = { scanned: 1, truncated: false };
      actor.post({
        kind: 'result',
        result: { id, epoch, status: 'succeeded', output, startedAt: AT, finishedAt: AT, ...more },
        ack: () => {},
      });
    },
    give: (id, rows) => void actor.post({ kind: 'rows', rows: { id, seq: 0, rows, done: false } }),
  };
  const actor = new DeviceActor({
    identity: IDENTITY,
    link: {
      sendCommand: on('sendCommand', (frame: CommandFrame) => notes.sent.push(frame)),
      endIfUnread: () => {},
      sendCancel: on('sendCancel', ({ id }: { id: string }) => notes.cancelled.push(id)),
      sendTerminalControl: () => {},
      answers: async () => true,
      close: on('close', (notice: HubReconnect | undefined) => notes.closed.push(notice)),
    },
    events: {
      // As it was when it was told.
      presence: (record) => void notes.presence.push(structuredClone(record)),
      facts: (facts) => void notes.facts.push(facts),
      failed: (error) => void notes.failed.push(error),
      gone: () => void (scened.gone += 1),
      outlived: () => {},
      ready: () => {},
      command: () => {},
      rows: () => {},
      upgrade: () => {},
      samples: () => {},
      services: () => {},
    },
    offers: NO_UPGRADE_OFFERS,
    limits: { heartbeatMs: 60_000, graceMs: GRACE_MS, maxQueries: 4 },
    agentVersion: '1.0.0',
    capabilities,
    ip: '10.0.0.7',
    connectedSince,
    earlierEpoch,
    now: NOW,
  });
  const scened: Scene = Object.assign(notes, { actor });
  return scened;
}

function heartbeat({ actor }: Scene, more: object = {}): HeartbeatAck | ErrorAck | undefined {
  let answer: HeartbeatAck | ErrorAck | undefined;
  actor.post({
    kind: 'heartbeat',
    heartbeat: { at: AT, agentVersion: '1.0.0', ...more },
    at: Date.now(),
    ack: (ack) => void (answer = ack),
  });
  return answer;
}

describe('a device actor', () => {
  let clock: sinon.SinonFakeTimers;
  beforeEach(() => {
    clock = sinon.useFakeTimers({ now: NOW, toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'Date'] });
  });
  afterEach(() => clock.restore());

  it('delays messages until it has its claim, then handles them in order under its epoch', () => {
    const s = scene();
    s.ask('a');
    s.ask('b');
    expect(heartbeat(s)).to.equal(undefined);
    expect([s.sent.length, s.actor.depth, s.actor.state]).to.deep.equal([0, 3, 'starting']);
    s.actor.claimed(7);
    expect(s.sent.map(({ id, epoch }) => [id, epoch])).to.deep.equal([
      ['a', 7],
      ['b', 7],
    ]);
    expect(s.presence[0]).to.deep.include({ epoch: 7, lastIp: '10.0.0.7' });
    expect(s.presence[0]?.presence).to.deep.equal({ state: 'connected', since: AT, reason: 'connected' });
  });

  it('answers a heartbeat from memory and reports its content', () => {
    const s = scene();
    s.actor.claimed(1);
    clock.tick(4000);
    const metrics = { cpuPercent: 1, ramPercent: 2, diskPercent: 3 };
    expect(heartbeat(s, { metrics, uptimeSeconds: 9 })).to.deep.equal({
      ok: true,
      at: '2026-01-31T08:00:04.000Z',
      nextInMs: 60_000,
      upgrade: [],
    });
    const last = s.presence.at(-1);
    expect(last).to.deep.include({ metrics, uptimeSeconds: 9, lastSeenAt: '2026-01-31T08:00:04.000Z' });
    expect(last?.presence.since).to.equal(AT);
  });

  it('reports facts about the machine only when they have changed', () => {
    const s = scene();
    s.actor.claimed(1);
    heartbeat(s, { osVersion: 'Debian 12' });
    heartbeat(s, { osVersion: 'Debian 12' });
    heartbeat(s, { osVersion: 'Debian 13' });
    expect(s.facts.map(({ osVersion }) => osVersion)).to.deep.equal([undefined, 'Debian 12', 'Debian 13']);
  });

  it('goes offline when its link stays closed for the grace period, with time and reason', () => {
    const s = scene();
    s.actor.claimed(3);
    s.ask('a');
    s.actor.linkClosed();
    expect(s.settled.get('a')).to.deep.equal([{ ok: false, reason: 'disconnected' }]);
    expect([s.actor.state, s.actor.isConnected, s.actor.countsAsConnected]).to.deep.equal([
      'online',
      false,
      true,
    ]);
    s.ask('b');
    expect(s.settled.get('b')).to.deep.equal([{ ok: false, reason: 'offline' }]);
    clock.tick(GRACE_MS - 1);
    expect(s.gone).to.equal(0);
    clock.tick(1);
    expect([s.gone, s.actor.state, s.closed.length]).to.deep.equal([1, 'gone', 0]);
    expect(s.presence.at(-1)?.presence).to.deep.equal({
      state: 'disconnected',
      since: '2026-01-31T08:00:05.000Z',
      reason: 'socket_closed',
    });
    expect(clock.countTimers()).to.equal(0);
  });

  it('leaves no timer and reports no presence when another actor takes over within the grace period', () => {
    const s = scene();
    s.actor.claimed(3);
    s.actor.linkClosed();
    const told = s.presence.length;
    s.actor.stop({ afterMs: 60_000, reason: 'superseded' }, undefined);
    expect([s.gone, s.presence.length, clock.countTimers()]).to.deep.equal([1, told, 0]);
    expect(s.closed).to.deep.equal([]);
  });

  it('waits for its claim when its link closes earlier, and shows the device as gone after the grace period', () => {
    const s = scene({ earlierEpoch: 2 });
    s.ask('a');
    s.actor.linkClosed();
    expect([s.actor.state, s.actor.isConnected, s.presence.length]).to.deep.equal(['starting', false, 0]);
    s.actor.claimed(3);
    // Whatever is stored of the connection before stays as it is for the grace.
    expect([s.settled.get('a'), s.presence]).to.deep.equal([[{ ok: false, reason: 'offline' }], []]);
    clock.tick(GRACE_MS);
    expect([s.gone, clock.countTimers()]).to.deep.equal([1, 0]);
    expect(s.presence.at(-1)).to.deep.include({
      epoch: 3,
      presence: { state: 'disconnected', since: '2026-01-31T08:00:05.000Z', reason: 'socket_closed' },
    });
  });

  it('shows the device as gone when its claim fails and an earlier connection had reported it as connected', () => {
    const s = scene({ earlierEpoch: 2 });
    s.actor.stop({ afterMs: 5000, reason: 'actor_failed' }, 'socket_closed');
    expect(s.presence.map(({ epoch, presence }) => [epoch, presence.state])).to.deep.equal([
      [2, 'disconnected'],
    ]);
    const first = scene();
    first.actor.stop({ afterMs: 5000, reason: 'actor_failed' }, 'socket_closed');
    expect(first.presence).to.deep.equal([]);
  });

  it('shows the device as gone under a claim that comes after the actor ended, unless another took over', () => {
    const s = scene();
    s.actor.stop({ afterMs: 1000, reason: 'draining' }, 'socket_closed');
    s.actor.claimed(3);
    expect(s.presence.map(({ epoch, presence }) => [epoch, presence.state])).to.deep.equal([
      [3, 'disconnected'],
    ]);
    for (const takeOver of [
      (replaced: Scene) => replaced.actor.stop({ afterMs: 60_000, reason: 'superseded' }, undefined),
      (replaced: Scene) => {
        replaced.actor.superseded(4);
        replaced.actor.stop({ afterMs: 1000, reason: 'draining' }, 'socket_closed');
      },
    ]) {
      const replaced = scene();
      takeOver(replaced);
      replaced.actor.claimed(3);
      expect(replaced.presence).to.deep.equal([]);
    }
  });

  it('sends the agent a reconnect time and reason if its link is open', () => {
    const s = scene();
    s.actor.claimed(3);
    s.actor.heartbeatMissed();
    expect(s.closed).to.deep.equal([{ afterMs: 1000, reason: 'heartbeat_missed' }]);
    expect(s.presence.at(-1)?.presence.reason).to.equal('heartbeat_missed');
    expect(s.actor.post({ kind: 'rows', rows: { id: 'a', seq: 0, rows: [], done: false } })).to.equal(false);
  });

  it('ignores a result under another epoch', () => {
    const s = scene();
    s.actor.claimed(3);
    s.ask('a');
    s.result('a', { epoch: 2 });
    expect([s.settled.get('a'), s.actor.openQueries]).to.deep.equal([[], 1]);
    s.result('a');
    expect(s.settled.get('a')).to.have.lengthOf(1);
  });

  it('withdraws a waiting query and cancels a running one', () => {
    const s = scene();
    s.ask('waiting');
    s.actor.cancelQuery('waiting', { reason: 'cancelled' });
    s.actor.claimed(1);
    s.ask('running');
    s.actor.cancelQuery('running', { reason: 'timeout' });
    s.actor.cancelQuery('unknown', { reason: 'timeout' });
    expect(s.settled.get('waiting')).to.deep.equal([{ ok: false, reason: 'cancelled' }]);
    expect(s.settled.get('running')).to.deep.equal([{ ok: false, reason: 'timeout' }]);
    expect([s.sent.map(({ id }) => id), s.cancelled]).to.deep.equal([['running'], ['running']]);
  });

  it('limits open queries and refuses what the agent does not support', () => {
    const s = scene({ capabilities: ['eventlogs.list'] });
    s.actor.claimed(1);
    s.ask('a');
    expect(s.settled.get('a')).to.deep.equal([{ ok: false, reason: 'capability_missing' }]);
    const full = scene();
    full.actor.claimed(1);
    for (const id of ['a', 'b', 'c', 'd', 'e']) full.ask(id);
    expect(full.settled.get('e')).to.deep.equal([{ ok: false, reason: 'busy' }]);
    full.result('a');
    full.ask('f');
    expect(full.settled.get('f')).to.deep.equal([]);
  });

  for (const part of ['sendCommand', 'sendCancel', 'close'] as const) {
    it(`ends and settles every query once when ${part} of its link throws`, () => {
      const s = scene({ breaks: new Set([part]) });
      s.actor.claimed(1);
      for (const id of ['a', 'b']) s.ask(id);
      s.actor.cancelQuery('a', { reason: 'cancelled' });
      s.actor.stop(undefined, 'socket_closed');
      expect([s.gone, s.actor.state, s.actor.openQueries]).to.deep.equal([1, 'gone', 0]);
      expect(s.failed).to.have.lengthOf(1);
      for (const [id, outcomes] of s.settled) {
        // With sendCommand broken the first question has ended the actor: it takes no second one.
        expect(outcomes, id).to.have.lengthOf(id === 'b' && part === 'sendCommand' ? 0 : 1);
      }
    });
  }

  it('settles every query exactly once, for messages in any order', () => {
    const id = fc.nat(11).map(String);
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ do: fc.constant('ask' as const) }) },
      {
        weight: 4,
        arbitrary: fc.record({ do: fc.constantFrom('result', 'failed', 'stopped', 'wrong', 'late'), id }),
      },
      {
        weight: 3,
        arbitrary: fc.record({ do: fc.constantFrom('rows', 'badRows', 'manyRows', 'cancel'), id }),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          do: fc.constantFrom('linkClosed', 'stop', 'silent', 'superseded', 'otherClaim', 'grace'),
        }),
      },
      { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('claim', 'heartbeat', 'tick') }) },
    );
    const breaks = fc.subarray<keyof DeviceLink>(['sendCommand', 'sendCancel', 'close']);
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.oneof(fc.constant([]), breaks), (steps, broken) => {
        const s = scene({ breaks: new Set(broken) });
        const taken: string[] = [];
        const acks: number[] = [];
        for (const action of steps) {
          const of = 'id' in action ? action.id : '';
          const act: Record<string, () => void> = {
            ask() {
              const next = String(s.settled.size);
              if (s.ask(next, { maxRows: 3 })) taken.push(next);
            },
            result: () => s.result(of),
            failed: () => s.result(of, { status: 'failed', error: { code: 'FAILED', message: 'no' } }),
            stopped: () => s.result(of, { status: 'cancelled' }),
            wrong: () => s.result(of, { output: 'not it' }),
            late: () => s.result(of, { epoch: 99 }),
            rows: () => s.give(of, [ROW]),
            badRows: () => s.give(of, ['not a row']),
            manyRows: () => s.give(of, [ROW, ROW, ROW, ROW]),
            cancel: () => s.actor.cancelQuery(of, { reason: 'cancelled' }),
            linkClosed: () => s.actor.linkClosed(),
            stop: () => s.actor.stop({ afterMs: 1, reason: 'draining' }, 'socket_closed'),
            silent: () => s.actor.heartbeatMissed(),
            superseded: () => s.actor.stop({ afterMs: 1, reason: 'superseded' }, undefined),
            otherClaim: () => s.actor.superseded(6),
            grace: () => void clock.tick(GRACE_MS),
            claim: () => s.actor.claimed(5),
            heartbeat: () => void (heartbeat(s) !== undefined && acks.push(1)),
            tick: () => void clock.tick(100),
          };
          act[action.do]?.();
        }
        s.actor.stop(undefined, 'socket_closed');
        clock.runAll();

        for (const [asked, outcomes] of s.settled) {
          expect(outcomes.length, `question ${asked}`).to.equal(taken.includes(asked) ? 1 : 0);
        }
        expect([s.gone, s.actor.state, s.actor.openQueries, s.actor.depth]).to.deep.equal([1, 'gone', 0, 0]);
        expect(s.closed.length).to.be.at.most(1);
        expect(clock.countTimers()).to.equal(0);
        for (const [asked, rows] of s.rows) expect(rows.length, `rows of ${asked}`).to.be.at.most(3);
        // What it said last of presence is never "connected", unless it was left to a successor or never began.
        const last = s.presence.at(-1)?.presence;
        if (last?.state === 'connected') {
          expect(steps.some((action) => action.do === 'superseded' || action.do === 'otherClaim')).to.equal(
            true,
          );
        }
      }),
      { numRuns: 400 },
    );
  });
});
