import { expect } from 'chai';
import { ClusterFeed, type FeedEvent } from '../../../../src/hub/feed/cluster-feed.ts';
import { DashboardFeed } from '../../../../src/hub/feed/dashboard-feed.ts';
import type { DeviceSummary } from '../../../../src/protocol/index.ts';
import type { DevicePatch } from '../../../../src/hub/subscriptions/device-change.ts';
import { presence } from '../../../support/feed-client.ts';

describe('changes that nodes send each other for their dashboards', () => {
  let told: FeedEvent[];
  let shown: DevicePatch[];
  let feed: ClusterFeed;
  let own: DashboardFeed;
  let isNeeded: boolean;

  beforeEach(() => {
    told = [];
    shown = [];
    own = new DashboardFeed();
    own.changed = (_deviceId, patch) => void shown.push(patch);
    isNeeded = true;
    feed = new ClusterFeed(own, {
      interest: {
        isNeeded: () => isNeeded,
        recipients: () => (isNeeded ? 'all' : new Set()),
        onWidened: () => {},
      },
      send: (_recipients, events) => void told.push(...events),
    });
  });
  const states = () => shown.map((patch) => patch.presence?.state);

  it('contain the status that results from an explicit status and a later presence', () => {
    feed.changed('device', { status: 'offline' });
    feed.changed('device', { presence: presence('connected') }, { epoch: 7 });
    feed.close();
    expect(told).to.deep.equal([
      {
        type: 'changed',
        deviceId: 'device',
        epoch: 7,
        patch: { status: 'online', presence: presence('connected') },
      },
    ]);
  });

  it('ignore late presence of an earlier claim, from any node', () => {
    feed.receive([
      { type: 'changed', deviceId: 'device', epoch: 8, patch: { presence: presence('connected') } },
    ]);
    feed.receive([
      { type: 'changed', deviceId: 'device', epoch: 7, patch: { presence: presence('disconnected') } },
    ]);
    feed.changed('device', { presence: presence('disconnected') }, { epoch: 6 });
    expect(states()).to.deep.equal(['connected']);
    feed.receive([
      { type: 'changed', deviceId: 'device', epoch: 8, patch: { presence: presence('disconnected') } },
    ]);
    expect(states()).to.deep.equal(['connected', 'disconnected']);
    feed.close();
    expect(told).to.deep.equal([]);
  });

  it('are not put together for a heartbeat of a device that no node shows', () => {
    const tenant = { orgId: 'org', partnerId: 'partner' };
    const metrics = { cpuPercent: 1, ramPercent: 2, diskPercent: 3 };
    const record = {
      deviceId: 'device',
      epoch: 7,
      presence: presence('connected'),
      lastSeenAt: null,
      lastIp: null,
      metrics,
      uptimeSeconds: null,
    };
    const noted: string[] = [];
    own.noteUnwatched = (deviceId) => void noted.push(deviceId);
    isNeeded = false;
    const heartbeat = () => feed.reported(record, { tenant, isReporting: false, isHeartbeat: true });
    heartbeat();
    feed.settle();
    expect([told, shown, noted]).to.deep.equal([[], [], ['device']]);
    isNeeded = true;
    heartbeat();
    feed.settle();
    expect([told.length, shown, noted.length]).to.deep.equal([1, [], 2]);
    expect(told[0]).to.deep.include({ type: 'changed', deviceId: 'device', epoch: 7 });
    const end = own.interest.add(['org']);
    heartbeat();
    expect(shown).to.have.length(1);
    expect(shown[0]?.metrics).to.deep.equal(metrics);
    expect(shown[0]?.metrics).to.not.equal(metrics);
    end();
  });

  it('are replaced by what the database has of a newer claim, and not by an older one', () => {
    const device = (state: 'connected' | 'disconnected') =>
      ({ id: 'device', status: 'offline', lastSeenAt: null, presence: presence(state) }) as DeviceSummary;
    feed.receive([
      { type: 'changed', deviceId: 'device', epoch: 7, patch: { presence: presence('connected') } },
    ]);
    feed.stored({ device: device('disconnected'), epoch: 6 });
    feed.stored({ device: device('disconnected'), epoch: 7 });
    expect(states()).to.deep.equal(['connected']);
    feed.stored({ device: device('disconnected'), epoch: 8 });
    feed.receive([
      { type: 'changed', deviceId: 'device', epoch: 7, patch: { presence: presence('connected') } },
    ]);
    expect(states()).to.deep.equal(['connected', 'disconnected']);
  });

  it('of devices of a lost node reach every node, also those without dashboards', () => {
    isNeeded = false;
    feed.changed('device', { presence: presence('disconnected') }, { epoch: 7, isForAll: true });
    feed.changed('other', { presence: presence('disconnected') }, { epoch: 7 });
    feed.close();
    expect(told.map((event) => 'deviceId' in event && event.deviceId)).to.deep.equal(['device']);
  });

  it('accept presence without an epoch, from a node of an earlier release', () => {
    feed.receive([{ type: 'changed', deviceId: 'device', patch: { presence: presence('connected') } }]);
    expect(states()).to.deep.equal(['connected']);
  });
});
