import { expect } from 'chai';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import { CommandDispatcher } from '../../../../src/hub/commands/command-dispatcher.ts';
import type { DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import type {
  CommandClaim,
  CommandEvent,
  CommandLedger,
  DispatchedCommand,
} from '../../../../src/hub/ports.ts';
import { LANES_CAPABILITY } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

type Claims = CommandClaim[];

describe('the command dispatcher', () => {
  let registry: ActorRegistry;
  let dispatcher: CommandDispatcher;
  let taken: Claims[];
  let recorded: CommandEvent[][];
  let sent: string[];
  let waiting: Map<string, DispatchedCommand[]>;
  let failing: { take: number; record: number };
  let log: ReturnType<typeof recordingLog>;
  let isUnstorable: (event: CommandEvent) => boolean;
  let changed: () => void;
  let refused: number;

  beforeEach(() => {
    registry = new ActorRegistry();
    taken = [];
    recorded = [];
    sent = [];
    waiting = new Map();
    failing = { take: 0, record: 0 };
    log = recordingLog();
    isUnstorable = () => false;
    changed = () => {};
    refused = 0;
    const ledger: CommandLedger = {
      async take(claims) {
        if (failing.take-- > 0) throw new Error('the database is away');
        taken.push([...claims]);
        const dispatched = claims.flatMap(({ deviceId }) => waiting.get(deviceId) ?? []);
        for (const { deviceId } of claims) waiting.delete(deviceId);
        return { dispatched, cancelled: [], changed: [] };
      },
      async record(events) {
        if (failing.record-- > 0) throw new Error('the database is away');
        if (events.some(isUnstorable)) {
          throw Object.assign(new Error('unsupported Unicode escape sequence'), { code: '22P05' });
        }
        recorded.push([...events]);
        return [];
      },
      undelivered: async () => [],
      sweep: async () => [],
      jobs: async () => [],
    };
    dispatcher = new CommandDispatcher({
      ledger,
      registry,
      changed: () => changed(),
      onRefused: (count) => void (refused += count),
      log: log.log,
    });
  });
  afterEach(async () => dispatcher.close());

  function arrive(deviceId: string, state: DeviceActor['state'] = 'online'): void {
    registry.put({
      deviceId,
      epoch: 7,
      capabilities: deviceId === 'old' ? [] : [LANES_CAPABILITY],
      state,
      isConnected: state === 'online',
      sendCommand: ({ id }: DispatchedCommand) => void sent.push(id),
      cancelCommand: () => {},
    } as unknown as DeviceActor);
  }
  const work = (deviceId: string, id: string): DispatchedCommand => ({
    id,
    deviceId,
    type: 'agent.reboot',
    payload: {},
    attempt: 1,
    epoch: 7,
    deadline: '2026-11-21T00:00:00.000Z',
  });
  const finished = (id: string, deviceId = 'one'): CommandEvent => ({
    kind: 'finished',
    id,
    deviceId,
    end: { status: 'succeeded', output: {} },
  });

  it('takes the commands of many devices in one call, and only of connected ones', async () => {
    for (let n = 0; n < 300; n++) arrive(`device ${n}`);
    arrive('leaving', 'draining');
    waiting.set('device 5', [work('device 5', 'first'), work('device 5', 'second')]);
    for (let n = 0; n < 300; n++) dispatcher.wake(`device ${n}`);
    dispatcher.wake('leaving');
    dispatcher.wake('elsewhere');
    await eventually(
      () => sent,
      (ids) => ids.length === 2,
    );
    expect(taken).to.have.length(1);
    expect(taken[0]).to.have.length(300);
    expect(taken[0]?.[0]).to.deep.equal({ deviceId: 'device 0', epoch: 7, knowsLanes: true });
    expect(sent).to.deep.equal(['first', 'second']);
  });

  it('marks the claim of an agent that knows no lanes', async () => {
    arrive('old');
    dispatcher.wake('old');
    await eventually(
      () => taken,
      ({ length }) => length === 1,
    );
    expect(taken[0]).to.deep.equal([{ deviceId: 'old', epoch: 7, knowsLanes: false }]);
  });

  it('writes the first and the last of many reports of progress, the last before the result', async () => {
    const report = (percent: number): CommandEvent => ({
      kind: 'running',
      id: 'busy',
      deviceId: 'one',
      progress: { phase: 'copying', percent },
    });
    for (let percent = 1; percent <= 100; percent++) dispatcher.record(report(percent));
    dispatcher.record(finished('busy'));
    await dispatcher.close();
    expect(recorded.flat()).to.deep.equal([report(1), report(100), finished('busy')]);
  });

  it('retries while the ledger is unavailable', async () => {
    arrive('one');
    waiting.set('one', [work('one', 'late')]);
    failing.take = 1;
    dispatcher.wake('one');
    await eventually(
      () => sent,
      (ids) => ids.includes('late'),
    );
    expect(log.lines.map(({ event }) => event)).to.include('commands.not_taken');
    dispatcher.wake('one');
    await eventually(
      () => taken,
      ({ length }) => length === 2,
    );
    // The call that failed may have marked commands all the same; the one that was answered has settled that.
    expect(taken).to.deep.equal([
      [{ deviceId: 'one', epoch: 7, knowsLanes: true, isUncertain: true }],
      [{ deviceId: 'one', epoch: 7, knowsLanes: true }],
    ]);
  });

  it('acknowledges a result when it is in the ledger, and not before', async () => {
    const order: string[] = [];
    failing.record = 1;
    dispatcher.record(finished('a'), (isKept) => order.push(`a kept: ${isKept}`));
    dispatcher.record(finished('b'), (isKept) => order.push(`b kept: ${isKept}`));
    expect(order).to.deep.equal([]);
    await eventually(
      () => log.lines,
      (lines) => lines.some(({ event }) => event === 'commands.not_recorded'),
    );
    expect(order).to.deep.equal([]);
    expect(dispatcher.unwritten).to.equal(2);
    await eventually(
      () => order,
      (told) => told.length === 2,
    );
    expect(order).to.deep.equal(['a kept: true', 'b kept: true']);
    expect(recorded.flat().map(({ id }) => id)).to.deep.equal(['a', 'b']);
    expect(dispatcher.unwritten).to.equal(0);
  });

  it('fails a command whose result the database refuses, and writes all other events', async () => {
    isUnstorable = (event) =>
      event.kind === 'finished' && event.id === 'bad' && event.end.status === 'succeeded';
    const kept: string[] = [];
    for (const id of ['a', 'b', 'bad', 'c']) {
      dispatcher.record(finished(id), (isKept) => kept.push(`${id}: ${isKept}`));
    }
    await eventually(
      () => kept,
      (told) => told.length === 4,
    );
    expect(kept).to.deep.equal(['a: true', 'b: true', 'c: true', 'bad: true']);
    const bad = recorded.flat().find(({ id }) => id === 'bad');
    expect(bad).to.have.nested.property('end.status', 'failed');
    expect(bad).to.have.nested.property('end.error.code', 'RESULT_NOT_STORED');
    expect([refused, dispatcher.unwritten]).to.deep.equal([1, 0]);
    expect(log.lines.find(({ event }) => event === 'commands.event_refused')).to.include({
      commandId: 'bad',
    });
  });

  it('drops an event that the database refuses in any form, and continues', async () => {
    isUnstorable = ({ id }) => id === 'bad';
    const kept: string[] = [];
    dispatcher.record({ kind: 'accepted', id: 'bad', deviceId: 'one' });
    dispatcher.record(finished('bad'), (isKept) => kept.push(`bad: ${isKept}`));
    dispatcher.record(finished('good'), (isKept) => kept.push(`good: ${isKept}`));
    await eventually(
      () => kept,
      (told) => told.length === 2,
    );
    expect(kept).to.deep.equal(['good: true', 'bad: true']);
    expect([refused, dispatcher.unwritten]).to.deep.equal([3, 0]);
  });

  it('continues to write when a callback throws', async () => {
    changed = () => {
      throw new Error('nobody takes changes');
    };
    dispatcher.record(finished('a'), () => {
      throw new Error('nobody takes receipts');
    });
    const kept: boolean[] = [];
    dispatcher.record(finished('b'), (isKept) => kept.push(isKept));
    await eventually(
      () => kept,
      (told) => told.length === 1,
    );
    dispatcher.record(finished('c'), (isKept) => kept.push(isKept));
    await eventually(
      () => kept,
      (told) => told.length === 2,
    );
    expect([kept, dispatcher.unwritten]).to.deep.equal([[true, true], 0]);
  });

  it('takes the next command when one has ended', async () => {
    arrive('one');
    waiting.set('one', [work('one', 'next')]);
    dispatcher.record(finished('before'));
    await eventually(
      () => sent,
      (ids) => ids.includes('next'),
    );
  });

  it('refuses events above its limit, so that agents send them again', async () => {
    failing.record = 1000;
    const refused: boolean[] = [];
    for (let n = 0; n < 20_001; n++) {
      dispatcher.record(finished(`${n}`), (isKept) => void refused.push(isKept));
    }
    expect(refused).to.deep.equal([false]);
    failing.record = 0;
  });

  it('writes the remaining events when it closes, and reports those that it could not write', async () => {
    const told: [string, boolean][] = [];
    dispatcher.record(finished('written'), (isKept) => told.push(['written', isKept]));
    await dispatcher.close();
    expect(told).to.deep.equal([['written', true]]);
    dispatcher.record(finished('too late'), (isKept) => told.push(['too late', isKept]));
    expect(told[1]).to.deep.equal(['too late', false]);
  });
});
