import { expect } from 'chai';
import sinon from 'sinon';
import { AgentInbox } from '../../../../src/hub/agents/agent-inbox.ts';
import { isPlainHeartbeat } from '../../../../src/hub/wire/heartbeat-fast-path.ts';
import type { ActorMessage } from '../../../../src/hub/device/actor-messages.ts';
import type { DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import type { HubReconnect, PresenceReason } from '../../../../src/protocol/index.ts';

const AT = '2026-01-31T08:00:00.000Z';
const NOW = Date.parse(AT);
const HEARTBEAT = { at: AT, agentVersion: '1.0.0' };
const WINDOW_MS = 10_000;
const PER_WINDOW = 500;
const MOST = 2000;
const MOST_ANSWERS = 20_000;
const BAD_IN_A_ROW = 50;

describe('the inbox of an agent', () => {
  let clock: sinon.SinonFakeTimers;
  let inbox: AgentInbox;
  let posted: ActorMessage[];
  let heard: number[];
  let stopped: [HubReconnect | undefined, PresenceReason | undefined][];
  let takes: boolean;
  let bad: number;
  let excess: number;

  beforeEach(() => {
    clock = sinon.useFakeTimers({ now: NOW, toFake: ['Date'] });
    posted = [];
    heard = [];
    stopped = [];
    takes = true;
    bad = 0;
    excess = 0;
    const actor = {
      lastHeardAt: 0,
      heard(at: number) {
        actor.lastHeardAt = at;
        heard.push(at);
      },
      post(message: ActorMessage) {
        if (takes) posted.push(message);
        return takes;
      },
      hasOpenQuery: (id: unknown) => id === 'query-1',
      stop: (notice, presence) => void stopped.push([notice, presence]),
    } satisfies Pick<DeviceActor, 'lastHeardAt' | 'heard' | 'post' | 'hasOpenQuery' | 'stop'>;
    inbox = new AgentInbox(actor as unknown as DeviceActor, {
      onBadMessage: () => void (bad += 1),
      onExcess: () => void (excess += 1),
    });
  });
  afterEach(() => clock.restore());

  /** Returns the acknowledgements so far. */
  const codesOf = (answers: unknown[]) =>
    (answers as { ok: boolean; error: { code: string } }[]).map(({ ok, error }) => (ok ? 'ok' : error.code));
  function send(event: unknown, payload: unknown): unknown[] {
    const answers: unknown[] = [];
    inbox.receive(event, payload, (answer) => void answers.push(answer));
    return answers;
  }
  const rows = (id: string) => ({ id, seq: 0, rows: [], done: false });
  const result = {
    id: 'command-1',
    epoch: 7,
    status: 'succeeded',
    output: {},
    startedAt: AT,
    finishedAt: AT,
  };
  const status = { component: 'agent', targetVersion: '2.0.0', phase: 'downloading' };

  describe('passes on', () => {
    it('asks for services that cannot be stored later, and not with all others', () => {
      const report = { manager: 'none', isComplete: true, services: [] };
      const answers = send('services:report', report);
      expect(answers).to.deep.equal([]);
      const [message] = posted;
      if (message?.kind !== 'services') throw new Error('It was not posted.');
      message.ack(false);
      takes = false;
      const [refused] = send('services:report', report);
      for (const answer of [answers[0], refused]) {
        const { error } = answer as { error: { code: string; retryAfterMs: number } };
        expect(error.code).to.equal('DEVICE_BUSY');
        expect(error.retryAfterMs).to.be.within(20_000, 40_000);
      }
    });

    it('heartbeats with the time at which they came', () => {
      clock.tick(5);
      const answers = send('heartbeat', HEARTBEAT);
      const [message] = posted;
      expect(message).to.deep.include({ kind: 'heartbeat', heartbeat: HEARTBEAT, at: NOW + 5 });
      expect([answers, heard]).to.deep.equal([[], [NOW + 5]]);
      const ack = { ok: true as const, at: AT, nextInMs: 60_000, upgrade: [] };
      if (message?.kind === 'heartbeat') message.ack(ack);
      expect(answers).to.deep.equal([ack]);
    });

    it('heartbeats without the fields that the schema does not have', () => {
      send('heartbeat', { ...HEARTBEAT, unknown: 1 });
      expect(posted[0]).to.deep.include({ kind: 'heartbeat', heartbeat: HEARTBEAT });
    });

    it('rows and progress, which it acknowledges at once', () => {
      const progress = { id: 'command-1', seq: 1, phase: 'copying' };
      expect(send('command:rows', rows('command-1'))).to.deep.equal([{ ok: true }]);
      expect(send('command:progress', progress)).to.deep.equal([{ ok: true }]);
      expect(posted).to.deep.equal([
        { kind: 'rows', rows: rows('command-1') },
        { kind: 'progress', progress },
      ]);
    });

    it('results and phases of upgrades, which it acknowledges when they are stored', () => {
      for (const [event, payload] of [
        ['command:result', result],
        ['update:status', status],
      ] as const) {
        for (const isStored of [true, false]) {
          posted = [];
          const answers = send(event, payload);
          const [message] = posted;
          expect(answers).to.deep.equal([]);
          if (message?.kind === 'result' || message?.kind === 'upgrade') message.ack(isStored);
          expect(answers.map((answer) => (answer as { ok: boolean }).ok)).to.deep.equal([isStored]);
        }
      }
      expect(posted[0]).to.deep.include({ kind: 'upgrade', status, at: NOW });
    });

    it('nothing that the actor cannot take, and asks the agent to send it again', () => {
      takes = false;
      for (const [event, payload] of [
        ['heartbeat', HEARTBEAT],
        ['command:rows', rows('command-1')],
        ['command:progress', { id: 'command-1', seq: 1, phase: 'copying' }],
        ['command:result', result],
        ['update:status', status],
      ] as const) {
        expect(codesOf(send(event, payload)), event).to.deep.equal(['DEVICE_BUSY']);
      }
      expect([bad, excess, stopped.length]).to.deep.equal([0, 0, 0]);
    });

    it('what Socket.IO has parsed, with and without an acknowledgement', () => {
      const answers: unknown[] = [];
      inbox.receiveArgs(['command:rows', rows('command-1'), (answer: unknown) => void answers.push(answer)]);
      inbox.receiveArgs(['command:rows', rows('command-2')]);
      expect(answers).to.deep.equal([{ ok: true }]);
      expect(posted).to.have.length(2);
    });
  });

  describe('refuses', () => {
    it('unknown events, also those that every object has', () => {
      for (const event of ['reboot', 'toString', '__proto__', 5, undefined, null]) {
        expect(codesOf(send(event, {})), String(event)).to.deep.equal(['UNKNOWN_EVENT']);
      }
      expect([posted, bad]).to.deep.equal([[], 6]);
    });

    it('invalid payloads, and says which field is invalid', () => {
      const messageOf = (event: string, payload: unknown) =>
        (send(event, payload)[0] as { error: { code: string; message: string } }).error;
      expect(messageOf('command:rows', { ...rows('a'), seq: -1 })).to.include({ code: 'VALIDATION_FAILED' });
      expect(messageOf('command:rows', { ...rows('a'), seq: -1 }).message).to.match(/^seq: ./);
      expect(messageOf('heartbeat', { ...HEARTBEAT, metrics: { cpuPercent: 'x' } }).message).to.match(
        /^metrics\.cpuPercent: ./,
      );
      expect(messageOf('heartbeat', 'text').message).to.match(/^payload: ./);
      expect([posted, heard, bad]).to.deep.equal([[], [], 4]);
    });

    it('what would be a heartbeat under the name of another event', () => {
      // Of the form that is recognized without the schema.
      const plain = { ...HEARTBEAT, at: '2026-01-28T08:00:00.000Z' };
      expect(isPlainHeartbeat(plain)).to.equal(true);
      for (const event of ['command:rows', 'command:result', 'command:progress', 'update:status']) {
        expect(codesOf(send(event, plain)), event).to.deep.equal(['VALIDATION_FAILED']);
      }
      expect([posted, bad]).to.deep.equal([[], 4]);
    });

    it('phases of a component that devices do not upgrade, without counting them as invalid', () => {
      const [answer] = send('update:status', { ...status, component: 'server' });
      expect(answer).to.nested.include({ ok: false, 'error.code': 'VALIDATION_FAILED' });
      expect((answer as { error: { message: string } }).error.message).to.equal(
        'component: one of agent, watchdog',
      );
      expect([posted, bad]).to.deep.equal([[], 0]);
    });
  });

  describe('ends the connection', () => {
    const VIOLATION = [{ afterMs: 60_000, reason: 'protocol_violation' }, 'socket_closed'];

    it('after 50 invalid messages in a row, once', () => {
      for (let n = 1; n < BAD_IN_A_ROW; n++) send('nonsense', {});
      expect(stopped).to.deep.equal([]);
      send('nonsense', {});
      expect(stopped).to.deep.equal([VIOLATION]);
      send('nonsense', {});
      expect([stopped.length, bad]).to.deep.equal([1, BAD_IN_A_ROW + 1]);
    });

    it('after 50 invalid messages in a row of events that exist', () => {
      const events = ['command:rows', 'heartbeat', 'command:result', 'update:status', 'command:progress'];
      for (let n = 1; n < BAD_IN_A_ROW; n++) send(events[n % events.length], 'no payload');
      expect(stopped).to.deep.equal([]);
      send('heartbeat', 'no payload');
      expect(stopped).to.deep.equal([VIOLATION]);
    });

    it('never for invalid messages between valid ones', () => {
      for (let round = 0; round < 3; round++) {
        for (let n = 1; n < BAD_IN_A_ROW; n++) send('nonsense', {});
        send('heartbeat', HEARTBEAT);
      }
      expect([stopped, bad]).to.deep.equal([[], 3 * (BAD_IN_A_ROW - 1)]);
    });

    it('when an agent continues to send far more than it may', () => {
      for (let n = 1; n <= PER_WINDOW; n++) send('heartbeat', HEARTBEAT);
      expect([posted.length, excess]).to.deep.equal([PER_WINDOW, 0]);
      clock.tick(3000);
      const [refusal] = send('heartbeat', HEARTBEAT);
      expect(refusal).to.nested.include({
        ok: false,
        'error.code': 'DEVICE_BUSY',
        'error.retryAfterMs': WINDOW_MS - 3000,
      });
      for (let n = PER_WINDOW + 2; n < MOST; n++) send('heartbeat', HEARTBEAT);
      expect([posted.length, heard.length, stopped]).to.deep.equal([PER_WINDOW, PER_WINDOW, []]);
      send('heartbeat', HEARTBEAT);
      expect([stopped, excess]).to.deep.equal([[VIOLATION], MOST - PER_WINDOW]);
    });

    it('when rows of an open query never end, which have a limit of their own', () => {
      for (let n = 1; n <= MOST_ANSWERS; n++) send('command:rows', rows('query-1'));
      expect([posted.length, excess, stopped]).to.deep.equal([MOST_ANSWERS, 0, []]);
      send('command:rows', rows('query-1'));
      expect([posted.length, excess, stopped]).to.deep.equal([MOST_ANSWERS, 1, [VIOLATION]]);
    });
  });

  describe('counts messages', () => {
    const fill = () => {
      for (let n = 1; n <= PER_WINDOW; n++) send('heartbeat', HEARTBEAT);
      posted = [];
    };
    const takesNow = () => {
      send('heartbeat', HEARTBEAT);
      return posted.length > 0;
    };

    it('within a window of ten seconds', () => {
      fill();
      clock.tick(WINDOW_MS - 1);
      expect(takesNow()).to.equal(false);
      clock.tick(1);
      expect(takesNow()).to.equal(true);
    });

    it('anew when the clock was set back', () => {
      fill();
      clock.setSystemTime(NOW - 1);
      expect(takesNow()).to.equal(true);
    });

    it('of open queries apart from all others, except for heartbeats', () => {
      fill();
      send('command:rows', rows('query-1'));
      expect(posted).to.have.length(1);
      for (const payload of [rows('other'), null, 'query-1', undefined]) send('command:rows', payload);
      send('heartbeat', { ...HEARTBEAT, id: 'query-1' });
      expect([posted.length, excess, bad]).to.deep.equal([1, 5, 0]);
    });

    it('of open queries from zero in each window', () => {
      for (let n = 1; n <= MOST_ANSWERS; n++) send('command:rows', rows('query-1'));
      clock.tick(WINDOW_MS);
      send('command:rows', rows('query-1'));
      expect([excess, stopped]).to.deep.equal([0, []]);
    });
  });
});
