import { expect } from 'chai';
import sinon from 'sinon';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import { ClusterFeed } from '../../../../src/hub/feed/cluster-feed.ts';
import { DashboardFeed } from '../../../../src/hub/feed/dashboard-feed.ts';
import { LostDevices } from '../../../../src/hub/presence/lost-devices.ts';
import type { DeviceStore } from '../../../../src/hub/ports.ts';
import type { HubMessage } from '../../../../src/hub/cluster/messages.ts';
import { InProcessCluster } from '../../../../src/platform/cluster/node-bus.ts';
import { quietLog } from '../../../support/quiet-log.ts';

describe('the devices of a lost node', () => {
  let clock: sinon.SinonFakeTimers;
  let lost: LostDevices;
  let asked: Parameters<DeviceStore['markLost']>[0][];
  let failures: number;

  beforeEach(async () => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const cluster = new InProcessCluster<HubMessage>();
    const bus = cluster.join('north');
    const other = cluster.join('south');
    asked = [];
    const markLost: DeviceStore['markLost'] = async (nodes) => {
      asked.push(nodes);
      if (asked.length <= failures) throw new Error('the database is away');
      return [];
    };
    lost = new LostDevices({
      store: { markLost } as DeviceStore,
      registry: new ActorRegistry(),
      feed: new ClusterFeed(new DashboardFeed(), undefined),
      bus,
      nodes: () => new Set(['north']),
      log: quietLog,
    });
    await other.close();
  });
  afterEach(() => {
    lost.close();
    clock.restore();
  });

  it('are marked as soon as the database is available again', async () => {
    failures = 20;
    await clock.tickAsync(180_000);
    expect(asked).to.have.length(21);
    expect(asked.at(-1)).to.deep.equal({ of: 'south' });
  });

  it('are no longer marked once the server stops', async () => {
    failures = 20;
    await clock.tickAsync(2000);
    const before = asked.length;
    lost.close();
    await clock.tickAsync(60_000);
    expect(asked).to.have.length(before);
  });
});
