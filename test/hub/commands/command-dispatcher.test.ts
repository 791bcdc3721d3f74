import { expect } from 'chai';
import { ActorRegistry } from '../../../src/hub/device/actor-registry.ts';
import { CommandDispatcher } from '../../../src/hub/commands/command-dispatcher.ts';
import type { DeviceActor } from '../../../src/hub/device/device-actor.ts';
import type {
  CommandClaim,
  CommandEvent,
  CommandLedger,
  DispatchedCommand,
} from '../../../src/hub/ports/command-ledger.ts';
import { LANES_CAPABILITY } from '../../../src/protocol/index.ts';
import { eventually } from '../../support/eventually.ts';
import { recordingLog } from '../../support/quiet-log.ts';

type Claims = CommandClaim[];

describe('the desk between the actors and the ledger', () => {
  let registry: ActorRegistry;
  let desk: CommandDispatcher;
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
    desk = new CommandDispatcher({
      ledger,
      registry,
      changed: () => changed(),
      onRefused: (count) => void (refused += count),
      log: log.log,
    });
  });
  afterEach(async () => desk.close());

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

  it('asks for the work of many devices at once, and of those that are here only', async () => {
    for (let n = 0; n < 300; n++) arrive(`device ${n}`);
    arrive('leaving', 'draining');
    waiting.set('device 5', [work('device 5', 'first'), work('device 5', 'second')]);
    for (let n = 0; n < 300; n++) desk.wake(`device ${n}`);
    desk.wake('leaving');
    desk.wake('elsewhere');
    await eventually(
      () => sent,
      (ids) => ids.length === 2,
    );
    expect(taken).to.have.length(1);
    expect(taken[0]).to.have.length(300);
    expect(taken[0]?.[0]).to.deep.equal({ deviceId: 'device 0', epoch: 7, knowsLanes: true });
    expect(sent).to.deep.equal(['first', 'second']);
  });

  it('asks for the work of an agent that knows no lanes as such', async () => {
    arrive('old');
    desk.wake('old');
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
    for (let percent = 1; percent <= 100; percent++) desk.record(report(percent));
    desk.record(finished('busy'));
    await desk.close();
    expect(recorded.flat()).to.deep.equal([report(1), report(100), finished('busy')]);
  });

  it('asks again while the ledger is away', async () => {
    arrive('one');
    waiting.set('one', [work('one', 'late')]);
    failing.take = 1;
    desk.wake('one');
    await eventually(
      () => sent,
      (ids) => ids.includes('late'),
    );
    expect(log.lines.map(({ event }) => event)).to.include('commands.not_taken');
    desk.wake('one');
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

  it('gives the receipt of a result when it is in the ledger, and not before', async () => {
    const order: string[] = [];
    failing.record = 1;
    desk.record(finished('a'), (isKept) => order.push(`a kept: ${isKept}`));
    desk.record(finished('b'), (isKept) => order.push(`b kept: ${isKept}`));
    expect(order).to.deep.equal([]);
    await eventually(
      () => log.lines,
      (lines) => lines.some(({ event }) => event === 'commands.not_recorded'),
    );
    expect(order).to.deep.equal([]);
    expect(desk.unwritten).to.equal(2);
    await eventually(
      () => order,
      (told) => told.length === 2,
    );
    expect(order).to.deep.equal(['a kept: true', 'b kept: true']);
    expect(recorded.flat().map(({ id }) => id)).to.deep.equal(['a', 'b']);
    expect(desk.unwritten).to.equal(0);
  });

  it('lets a command fail whose result the database refuses, and writes all others', async () => {
    isUnstorable = (event) =>
      event.kind === 'finished' && event.id === 'bad' && event.end.status === 'succeeded';
    const kept: string[] = [];
    for (const id of ['a', 'b', 'bad', 'c']) {
      desk.record(finished(id), (isKept) => kept.push(`${id}: ${isKept}`));
    }
    await eventually(
      () => kept,
      (told) => told.length === 4,
    );
    expect(kept).to.deep.equal(['a: true', 'b: true', 'c: true', 'bad: true']);
    const bad = recorded.flat().find(({ id }) => id === 'bad');
    expect(bad).to.have.nested.property('end.status', 'failed');
    expect(bad).to.have.nested.property('end.error.code', 'RESULT_NOT_STORED');
    expect([refused, desk.unwritten]).to.deep.equal([1, 0]);
    expect(log.lines.find(({ event }) => event === 'commands.event_refused')).to.include({
      commandId: 'bad',
    });
  });

  it('drops an event that the database refuses in any form, and goes on', async () => {
    isUnstorable = ({ id }) => id === 'bad';
    const kept: string[] = [];
    desk.record({ kind: 'accepted', id: 'bad', deviceId: 'one' });
    desk.record(finished('bad'), (isKept) => kept.push(`bad: ${isKept}`));
    desk.record(finished('good'), (isKept) => kept.push(`good: ${isKept}`));
    await eventually(
      () => kept,
      (told) => told.length === 2,
    );
    expect(kept).to.deep.equal(['good: true', 'bad: true']);
    expect([refused, desk.unwritten]).to.deep.equal([3, 0]);
  });

  it('goes on writing when whoever is told of it throws', async () => {
    changed = () => {
      throw new Error('nobody takes changes');
    };
    desk.record(finished('a'), () => {
      throw new Error('nobody takes receipts');
    });
    const kept: boolean[] = [];
    desk.record(finished('b'), (isKept) => kept.push(isKept));
    await eventually(
      () => kept,
      (told) => told.length === 1,
    );
    desk.record(finished('c'), (isKept) => kept.push(isKept));
    await eventually(
      () => kept,
      (told) => told.length === 2,
    );
    expect([kept, desk.unwritten]).to.deep.equal([[true, true], 0]);
  });

  it('brings the next work when one has ended', async () => {
    arrive('one');
    waiting.set('one', [work('one', 'next')]);
    desk.record(finished('before'));
    await eventually(
      () => sent,
      (ids) => ids.includes('next'),
    );
  });

  it('refuses more than it can hold, which then comes again', async () => {
    failing.record = 1000;
    const refused: boolean[] = [];
    for (let n = 0; n < 20_001; n++) desk.record(finished(`${n}`), (isKept) => void refused.push(isKept));
    expect(refused).to.deep.equal([false]);
    failing.record = 0;
  });

  it('writes what waits when it closes, and tells whoever it could not write for', async () => {
    const told: [string, boolean][] = [];
    desk.record(finished('written'), (isKept) => told.push(['written', isKept]));
    await desk.close();
    expect(told).to.deep.equal([['written', true]]);
    desk.record(finished('too late'), (isKept) => told.push(['too late', isKept]));
    expect(told[1]).to.deep.equal(['too late', false]);
  });
});
