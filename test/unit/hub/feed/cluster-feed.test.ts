import { expect } from 'chai';
import { ClusterFeed, type FeedEvent } from '../../../../src/hub/feed/cluster-feed.ts';
import { DashboardFeed } from '../../../../src/hub/feed/dashboard-feed.ts';
import type { DevicePatch } from '../../../../src/hub/subscriptions/device-change.ts';
import { presence } from '../../../support/feed-client.ts';

describe('changes that nodes send each other for their dashboards', () => {
  let told: FeedEvent[];
  let shown: DevicePatch[];
  let feed: ClusterFeed;

  beforeEach(() => {
    told = [];
    shown = [];
    const own = new DashboardFeed();
    own.changed = (_deviceId, patch) => void shown.push(patch);
    feed = new ClusterFeed(own, (events) => void told.push(...events));
  });
  const states = () => shown.map((patch) => patch.presence?.state);

  it('contain the status that results from an explicit status and a later presence', () => {
    feed.changed('device', { status: 'offline' });
    feed.changed('device', { presence: presence('connected') }, 7);
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
    feed.changed('device', { presence: presence('disconnected') }, 6);
    expect(states()).to.deep.equal(['connected']);
    feed.receive([
      { type: 'changed', deviceId: 'device', epoch: 8, patch: { presence: presence('disconnected') } },
    ]);
    expect(states()).to.deep.equal(['connected', 'disconnected']);
    feed.close();
    expect(told).to.deep.equal([]);
  });

  it('accept presence without an epoch, from a node of an earlier release', () => {
    feed.receive([{ type: 'changed', deviceId: 'device', patch: { presence: presence('connected') } }]);
    expect(states()).to.deep.equal(['connected']);
  });
});
