import { expect } from 'chai';
import sinon from 'sinon';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import type { ChangedDevices } from '../../../../src/hub/feed/changed-devices.ts';
import { ClusterFeed } from '../../../../src/hub/feed/cluster-feed.ts';
import { DashboardFeed } from '../../../../src/hub/feed/dashboard-feed.ts';
import { DeviceEventHandlers } from '../../../../src/hub/feed/device-event-handlers.ts';

describe('device lists after another server was lost', () => {
  let clock: sinon.SinonFakeTimers;
  let handlers: DeviceEventHandlers;
  let readAgain: number;

  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    readAgain = 0;
    handlers = new DeviceEventHandlers({
      events: { subscribe: () => {} },
      registry: new ActorRegistry(),
      feed: new ClusterFeed(new DashboardFeed()),
      changedDevices: {} as ChangedDevices,
      live: undefined,
      credentials: { forget: () => {} },
      onMissed: () => void (readAgain += 1),
    });
  });
  afterEach(() => {
    handlers.close();
    clock.restore();
  });

  it('are read again when its devices are marked and its last messages lie over no record', () => {
    handlers.resyncLater();
    clock.tick(5000);
    expect(readAgain).to.equal(0);
    clock.tick(2000);
    expect(readAgain).to.equal(1);
    clock.tick(60_000);
    expect(readAgain).to.equal(1);
  });

  it('are read again once after several were lost', () => {
    handlers.resyncLater();
    clock.tick(3000);
    handlers.resyncLater();
    clock.tick(60_000);
    expect(readAgain).to.equal(1);
  });

  it('are left alone when this server stops', () => {
    handlers.resyncLater();
    handlers.close();
    clock.tick(60_000);
    expect([readAgain, clock.countTimers()]).to.deep.equal([0, 0]);
  });
});
