import { expect } from 'chai';
import sinon from 'sinon';
import { CommandDispatcher } from '../../../../src/hub/commands/command-dispatcher.ts';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import type { DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import type {
  CommandClaim,
  CommandEvent,
  CommandLedger,
  DispatchedCommand,
  JobChange,
} from '../../../../src/hub/ports.ts';
import { LANES_CAPABILITY } from '../../../../src/protocol/index.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const BATCH_MS = 10;
const RETRY_MS = 1000;
const SWEEP_MS = 5000;

describe('the command dispatcher, by a clock that the test moves,', () => {
  let clock: sinon.SinonFakeTimers;
  let registry: ActorRegistry;
  let dispatcher: CommandDispatcher;
  let taken: CommandClaim[][];
  let recorded: string[][];
  let calls: string[];
  let changes: unknown[];
  let answer: Partial<Awaited<ReturnType<CommandLedger['take']>>>;
  let takeFailures: number;
  let recordFailures: number;
  let sweeps: number;
  let sweepFails: boolean;
  let log: ReturnType<typeof recordingLog>;
  let gate: Promise<void>;
  let recordGate: Promise<void>;
  let callbackFails: boolean;

  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
    registry = new ActorRegistry();
    [taken, recorded, calls, changes] = [[], [], [], []];
    answer = {};
    [takeFailures, recordFailures, sweeps] = [0, 0, 0];
    sweepFails = false;
    callbackFails = false;
    log = recordingLog();
    gate = Promise.resolve();
    recordGate = Promise.resolve();
    dispatcher = new CommandDispatcher({
      registry,
      log: log.log,
      changed(jobs) {
        if (jobs.length > 0) changes.push(...jobs);
        if (callbackFails) throw new Error('nobody takes changes');
      },
      ledger: {
        async take(claims: readonly CommandClaim[]) {
          taken.push(claims.map((claim) => ({ ...claim })));
          await gate;
          if (takeFailures-- > 0) throw new Error('the database is away');
          return { dispatched: [], cancelled: [], changed: [], ...answer };
        },
        async record(events: readonly CommandEvent[]) {
          await recordGate;
          if (recordFailures-- > 0) throw new Error('the database is away');
          recorded.push(events.map(({ id }) => id));
          return [{ id: `changed by ${events.length}` } as unknown as JobChange];
        },
        async sweep() {
          sweeps += 1;
          if (sweepFails) throw new Error('the database is away');
          return [{ id: 'swept' } as unknown as JobChange];
        },
      } as CommandLedger,
    });
  });
  afterEach(async () => {
    takeFailures = 0;
    recordFailures = 0;
    await dispatcher.close();
    clock.restore();
  });

  const connect = (deviceId: string, more: Partial<DeviceActor> = {}) =>
    registry.put({
      deviceId,
      epoch: 7,
      capabilities: [LANES_CAPABILITY],
      state: 'online',
      isConnected: true,
      sendCommand: ({ id }: DispatchedCommand) => void calls.push(`send ${id} to ${deviceId}`),
      cancelCommand: (id: string) => void calls.push(`cancel ${id} on ${deviceId}`),
      ...more,
    } as DeviceActor);
  const command = (id: string, deviceId: string) => ({ id, deviceId, epoch: 7 }) as DispatchedCommand;
  const finished = (id: string): CommandEvent => ({
    kind: 'finished',
    id,
    deviceId: 'device-1',
    end: { status: 'succeeded' },
  });

  it('sends and cancels what the ledger returns, and passes on what has changed', async () => {
    connect('device-1');
    connect('device-2');
    answer = {
      dispatched: [command('a', 'device-1'), command('b', 'elsewhere'), command('c', 'device-2')],
      cancelled: [
        { id: 'd', deviceId: 'elsewhere' },
        { id: 'e', deviceId: 'device-2' },
      ],
      changed: [{ id: 'a' } as unknown as JobChange],
    };
    dispatcher.wake('device-1');
    dispatcher.wake('device-2');
    await clock.tickAsync(BATCH_MS - 1);
    expect(taken).to.deep.equal([]);
    await clock.tickAsync(1);
    expect(calls).to.deep.equal(['send a to device-1', 'send c to device-2', 'cancel e on device-2']);
    expect(changes).to.deep.equal([{ id: 'a' }]);
    await clock.tickAsync(10 * BATCH_MS);
    expect([taken.length, clock.countTimers()]).to.deep.equal([1, 1]);
  });

  it('sends the other commands when one cannot be sent', async () => {
    const broken = () => {
      throw new Error('broken');
    };
    connect('device-1', { sendCommand: broken, cancelCommand: broken });
    connect('device-2');
    callbackFails = true;
    answer = {
      dispatched: [command('a', 'device-1'), command('b', 'device-2')],
      cancelled: [
        { id: 'c', deviceId: 'device-1' },
        { id: 'd', deviceId: 'device-2' },
      ],
    };
    dispatcher.wake('device-1');
    await clock.tickAsync(RETRY_MS + BATCH_MS);
    expect(calls).to.deep.equal(['send b to device-2', 'cancel d on device-2']);
    expect(log.lines.map(({ event }) => event)).to.deep.equal(
      Array.from({ length: 3 }, () => 'commands.callback_failed'),
    );
    expect(taken).to.have.length(1);
  });

  it('asks only for devices that are online and connected', async () => {
    connect('starting', { state: 'starting' });
    connect('closed', { isConnected: false });
    for (const id of ['starting', 'closed', 'elsewhere']) dispatcher.wake(id);
    await clock.tickAsync(10 * BATCH_MS);
    expect(taken).to.deep.equal([]);
    connect('online');
    dispatcher.wake('online');
    dispatcher.wake('closed');
    await clock.tickAsync(BATCH_MS);
    expect(taken).to.deep.equal([[{ deviceId: 'online', epoch: 7, knowsLanes: true }]]);
  });

  it('asks for at most 500 devices at once, and for the others after that', async () => {
    for (let n = 0; n < 501; n++) {
      connect(`device ${n}`);
      dispatcher.wake(`device ${n}`);
    }
    await clock.tickAsync(BATCH_MS);
    expect(taken.map(({ length }) => length)).to.deep.equal([500]);
    await clock.tickAsync(BATCH_MS);
    expect(taken.map(({ length }) => length)).to.deep.equal([500, 1]);
  });

  it('makes one call at a time, and another for what came meanwhile', async () => {
    let open = () => {};
    gate = new Promise((resolve) => (open = resolve));
    connect('device-1');
    dispatcher.wake('device-1');
    await clock.tickAsync(BATCH_MS);
    dispatcher.wake('device-1');
    await clock.tickAsync(10 * BATCH_MS);
    expect(taken).to.have.length(1);
    open();
    await clock.tickAsync(BATCH_MS);
    expect(taken).to.have.length(2);
  });

  it('tries again a second after a failure, with the claims marked as uncertain once', async () => {
    connect('device-1');
    takeFailures = 2;
    dispatcher.wake('device-1');
    await clock.tickAsync(BATCH_MS + RETRY_MS - 1);
    expect(taken).to.have.length(1);
    // The time of a device that wakes meanwhile does not count.
    dispatcher.wake('device-1');
    await clock.tickAsync(1);
    expect(taken).to.have.length(2);
    await clock.tickAsync(RETRY_MS);
    dispatcher.wake('device-1');
    await clock.tickAsync(BATCH_MS);
    expect(taken.map(([claim]) => claim?.isUncertain)).to.deep.equal([undefined, true, true, undefined]);
    expect(log.lines.map(({ event, devices }) => [event, devices])).to.deep.equal([
      ['commands.not_taken', 1],
      ['commands.not_taken', 1],
    ]);
  });

  it('forgets that a claim is uncertain when the device has gone', async () => {
    connect('device-1');
    takeFailures = 1;
    dispatcher.wake('device-1');
    await clock.tickAsync(BATCH_MS);
    connect('device-1', { isConnected: false });
    await clock.tickAsync(RETRY_MS);
    connect('device-1', { epoch: 8 });
    dispatcher.wake('device-1');
    await clock.tickAsync(BATCH_MS);
    expect(taken.at(-1)).to.deep.equal([{ deviceId: 'device-1', epoch: 8, knowsLanes: true }]);
  });

  it('takes nothing after it was closed, also when a call is under way', async () => {
    let open = () => {};
    gate = new Promise((resolve) => (open = resolve));
    takeFailures = 1;
    connect('device-1');
    dispatcher.wake('device-1');
    await clock.tickAsync(BATCH_MS);
    dispatcher.wake('device-1');
    let isClosed = false;
    const closing = dispatcher.close().then(() => (isClosed = true));
    await clock.tickAsync(0);
    expect(isClosed).to.equal(false);
    open();
    await closing;
    dispatcher.wake('device-1');
    await clock.tickAsync(10 * SWEEP_MS);
    expect([taken.length, sweeps, clock.countTimers()]).to.deep.equal([1, 0, 0]);
  });

  it('sweeps the ledger every five seconds, and passes on what has ended', async () => {
    await clock.tickAsync(SWEEP_MS - 1);
    expect(sweeps).to.equal(0);
    await clock.tickAsync(1);
    expect([sweeps, changes]).to.deep.equal([1, [{ id: 'swept' }]]);
    sweepFails = true;
    await clock.tickAsync(SWEEP_MS);
    expect([sweeps, log.lines[0]?.['event']]).to.deep.equal([2, 'commands.sweep_failed']);
  });

  it('wakes a device that postponed a command with the next sweep, once', async () => {
    connect('device-1');
    dispatcher.record({ kind: 'postponed', id: 'a', deviceId: 'device-1', attempt: 1 });
    await clock.tickAsync(SWEEP_MS - 1);
    expect([recorded, taken]).to.deep.equal([[['a']], []]);
    await clock.tickAsync(1 + BATCH_MS);
    expect(taken).to.have.length(1);
    await clock.tickAsync(2 * SWEEP_MS);
    expect(taken).to.have.length(1);
  });

  it('takes the next command after a result, and after no other event', async () => {
    connect('device-1');
    dispatcher.record({ kind: 'accepted', id: 'a', deviceId: 'device-1' });
    await clock.tickAsync(10 * BATCH_MS);
    expect([recorded, taken]).to.deep.equal([[['a']], []]);
    dispatcher.record(finished('a'));
    await clock.tickAsync(2 * BATCH_MS);
    expect(taken).to.have.length(1);
    expect(changes).to.deep.equal([{ id: 'changed by 1' }, { id: 'changed by 1' }]);
  });

  it('records 500 events at once, and the others at once after that', async () => {
    for (let n = 0; n < 1001; n++) dispatcher.record(finished(`${n}`));
    expect(dispatcher.unwritten).to.equal(1001);
    await clock.tickAsync(BATCH_MS - 1);
    expect(recorded).to.deep.equal([]);
    await clock.tickAsync(3);
    expect(recorded.map(({ length }) => length)).to.deep.equal([500, 500, 1]);
    expect(dispatcher.unwritten).to.equal(0);
  });

  it('records one batch at a time, in order', async () => {
    let open = () => {};
    recordGate = new Promise((resolve) => (open = resolve));
    dispatcher.record(finished('a'));
    await clock.tickAsync(BATCH_MS);
    dispatcher.record(finished('b'));
    await clock.tickAsync(10 * BATCH_MS);
    open();
    await clock.tickAsync(BATCH_MS);
    expect(recorded).to.deep.equal([['a'], ['b']]);
  });

  it('keeps the order of events over a failure, and tries again after a second', async () => {
    recordFailures = 1;
    dispatcher.record(finished('a'));
    await clock.tickAsync(BATCH_MS);
    dispatcher.record(finished('b'));
    await clock.tickAsync(RETRY_MS - 1);
    expect([recorded, dispatcher.unwritten]).to.deep.equal([[], 2]);
    await clock.tickAsync(1);
    expect([recorded, dispatcher.unwritten]).to.deep.equal([[['a', 'b']], 0]);
    expect(log.lines[0]).to.include({ event: 'commands.not_recorded', waiting: 1 });
  });

  it('does not keep the server from stopping when the ledger is away, and says what was not stored', async () => {
    recordFailures = 10;
    const stored: boolean[] = [];
    dispatcher.record(finished('a'), (isStored) => void stored.push(isStored));
    await dispatcher.close();
    expect([stored, recordFailures, dispatcher.unwritten]).to.deep.equal([[false], 9, 0]);
  });

  it('waits when it closes for the batch that is being recorded, and does not record it again', async () => {
    let open = () => {};
    recordGate = new Promise((resolve) => (open = resolve));
    const stored: string[] = [];
    dispatcher.record(finished('a'), (isStored) => void stored.push(`a ${isStored}`));
    await clock.tickAsync(BATCH_MS);
    dispatcher.record(finished('b'), (isStored) => void stored.push(`b ${isStored}`));
    const closing = dispatcher.close();
    await clock.tickAsync(0);
    open();
    await closing;
    expect([recorded, stored]).to.deep.equal([
      [['a'], ['b']],
      ['a true', 'b true'],
    ]);
  });

  it('does not try earlier after a failure because another device was woken meanwhile', async () => {
    let open = () => {};
    gate = new Promise((resolve) => (open = resolve));
    takeFailures = 1;
    connect('device-1');
    connect('device-2');
    dispatcher.wake('device-1');
    await clock.tickAsync(BATCH_MS);
    dispatcher.wake('device-2');
    open();
    await clock.tickAsync(RETRY_MS - 1);
    expect(taken).to.have.length(1);
    await clock.tickAsync(1);
    expect(taken[1]?.map(({ deviceId }) => deviceId)).to.have.members(['device-1', 'device-2']);
  });

  it('rests when there is nothing to do', async () => {
    connect('device-1');
    dispatcher.wake('device-1');
    dispatcher.record(finished('a'));
    await clock.tickAsync(10 * BATCH_MS);
    expect(clock.countTimers(), 'nothing but the sweep').to.equal(1);
  });

  it('leaves no timer behind when it closes before a batch, or while the ledger is away', async () => {
    connect('device-1');
    dispatcher.wake('device-1');
    let fail = () => {};
    recordGate = new Promise((_resolve, reject) => (fail = () => reject(new Error('the database is away'))));
    dispatcher.record(finished('a'));
    await clock.tickAsync(BATCH_MS);
    dispatcher.wake('device-1');
    const closing = dispatcher.close();
    recordFailures = 10;
    fail();
    await closing;
    expect([taken.length, clock.countTimers()]).to.deep.equal([1, 0]);
  });

  describe('settled without a timer', () => {
    it('has swept, taken and recorded all, also what follows from that', async () => {
      connect('device-1');
      dispatcher.record({ kind: 'postponed', id: 'a', deviceId: 'device-1', attempt: 1 });
      await clock.tickAsync(BATCH_MS);
      dispatcher.record(finished('b'));
      dispatcher.record({ kind: 'running', id: 'c', deviceId: 'device-1' });
      dispatcher.record({ kind: 'running', id: 'c', deviceId: 'device-1', progress: { phase: 'last' } });
      await dispatcher.settle();
      expect([sweeps, recorded]).to.deep.equal([1, [['a'], ['b', 'c', 'c']]]);
      expect(taken, 'for the command that was postponed, and after the one that has ended').to.have.length(2);
      expect(dispatcher.unwritten).to.equal(0);
    });

    it('goes on waiting while the ledger fails, and tries again a second later', async () => {
      connect('device-1');
      dispatcher.wake('device-1');
      takeFailures = 1;
      await dispatcher.settle();
      expect(taken).to.have.length(1);
      recordFailures = 1;
      dispatcher.record(finished('a'));
      await dispatcher.settle();
      expect([recorded, dispatcher.unwritten]).to.deep.equal([[], 1]);
      await clock.tickAsync(RETRY_MS);
      expect(recorded).to.deep.equal([['a']]);
    });
  });

  it('records all remaining batches when it closes', async () => {
    for (let n = 0; n < 501; n++) dispatcher.record(finished(`${n}`));
    dispatcher.record({ kind: 'running', id: 'b', deviceId: 'device-1' });
    dispatcher.record({ kind: 'running', id: 'b', deviceId: 'device-1', progress: { phase: 'last' } });
    await dispatcher.close();
    expect(recorded.map(({ length }) => length)).to.deep.equal([500, 3]);
    expect(clock.countTimers()).to.equal(0);
  });
});
