import { expect } from 'chai';
import sinon from 'sinon';
import { UndeliveredWork } from '../../../../src/hub/commands/command-dispatcher.ts';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import type { DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const EVERY_MS = 10_000;

describe('the scan for undelivered work', () => {
  let clock: sinon.SinonFakeTimers;
  let random: sinon.SinonStub;
  let registry: ActorRegistry;
  let pages: string[][];
  let asked: [string | undefined, number][];
  let woken: string[];
  let fails: boolean;
  let gate: Promise<void>;
  let work: UndeliveredWork;
  let log: ReturnType<typeof recordingLog>;

  const start = (everyMs?: number) =>
    (work = new UndeliveredWork({
      registry,
      everyMs,
      log: log.log,
      wake: (deviceId) => void woken.push(deviceId),
      ledger: {
        async undelivered(after, atMost) {
          asked.push([after, atMost]);
          await gate;
          if (fails) throw new Error('the database is away');
          return pages.shift() ?? [];
        },
      },
    }));
  const connect = (deviceId: string, isConnected = true) =>
    registry.put({ deviceId, isConnected } as DeviceActor);

  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    random = sinon.stub(Math, 'random').returns(0);
    registry = new ActorRegistry();
    [pages, asked, woken] = [[], [], []];
    fails = false;
    gate = Promise.resolve();
    log = recordingLog();
  });
  afterEach(async () => {
    await work.close();
    random.restore();
    clock.restore();
  });

  it('wakes those of the devices that are connected here', async () => {
    connect('here');
    connect('leaving', false);
    pages = [['elsewhere', 'here', 'leaving']];
    start();
    await work.scan();
    expect([woken, asked]).to.deep.equal([['here'], [[undefined, 1000]]]);
  });

  it('reads page after page until one is not full', async () => {
    const full = Array.from({ length: 1000 }, (_, n) => `device ${n}`);
    connect('last');
    pages = [full, full, ['last']];
    start();
    await work.scan();
    expect(asked.map(([after]) => after)).to.deep.equal([undefined, 'device 999', 'device 999']);
    expect(woken).to.deep.equal(['last']);
    pages = [];
    await work.scan();
    expect(asked.at(-1)).to.deep.equal([undefined, 1000]);
  });

  it('does not ask if no device is connected', async () => {
    start();
    await work.scan();
    expect(asked).to.deep.equal([]);
  });

  it('comes again after ten to twenty seconds, each time', async () => {
    connect('here');
    start();
    await clock.tickAsync(EVERY_MS - 1);
    expect(asked).to.have.length(0);
    random.returns(0.5);
    await clock.tickAsync(1);
    expect(asked).to.have.length(1);
    await clock.tickAsync(1.5 * EVERY_MS - 1);
    expect(asked).to.have.length(1);
    await clock.tickAsync(1);
    expect(asked).to.have.length(2);
  });

  it('comes as often as it was set', async () => {
    connect('here');
    start(100);
    await clock.tickAsync(1000);
    expect(asked).to.have.length(10);
  });

  it('goes on after a failure', async () => {
    connect('here');
    fails = true;
    start();
    await clock.tickAsync(EVERY_MS);
    expect(log.lines.map(({ event }) => event)).to.deep.equal(['commands.undelivered_work_not_read']);
    fails = false;
    pages = [['here']];
    await clock.tickAsync(EVERY_MS);
    expect(woken).to.deep.equal(['here']);
  });

  it('is not repeated while one is under way, and stops with the server', async () => {
    connect('here');
    const full = Array.from({ length: 1000 }, (_, n) => `device ${n}`);
    pages = [full, full];
    let open = () => {};
    gate = new Promise((resolve) => (open = resolve));
    start();
    const scans = [work.scan(), work.scan()];
    let isClosed = false;
    const closed = work.close().then(() => (isClosed = true));
    await clock.tickAsync(0);
    expect([asked.length, isClosed]).to.deep.equal([1, false]);
    open();
    await Promise.all([...scans, closed]);
    // The next page is not read any more.
    expect(asked).to.have.length(1);
    await work.scan();
    await clock.tickAsync(10 * EVERY_MS);
    expect([asked.length, clock.countTimers()]).to.deep.equal([1, 0]);
  });
});
