import { expect } from 'chai';
import { RedisNodeBus } from '../../../../src/platform/cluster/redis-bus.ts';
import type { RedisConnection } from '../../../../src/platform/cluster/redis-connection.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

const BEAT_MS = 1000;
/** After a loss of Redis, so long other nodes may need to register again. */
const QUIET_MS = 6000;

describe('nodes over Redis', () => {
  const clock = useTestClock({ isRunning: false });
  let bus: RedisNodeBus<string>;
  /** The nodes that are registered, beside this one. */
  let others: string[];
  let isAway: boolean;
  /** False while a part of a Redis Cluster is away. */
  let isWhole: boolean;
  let miss: () => void;
  let lost: string[];
  let returns: number;

  beforeEach(async () => {
    [others, lost] = [['south'], []];
    [isAway, isWhole, returns] = [false, true, 0];
    const client = {
      async eval(script: string) {
        if (isAway) throw new Error('Redis is away');
        return script.includes('ZREMRANGEBYSCORE') ? [0, ['north', ...others], 3000] : 0;
      },
      zrem: async () => 1,
    };
    const redis = { client, isWhole: () => isWhole, onChange: () => {}, publish: async () => 1 };
    bus = await RedisNodeBus.join<string>({
      nodeId: 'north',
      redis: redis as unknown as RedisConnection,
      subscriber: {
        listen: () => {},
        onMessage: () => {},
        onMissed: (handler) => (miss = handler),
        close: async () => {},
      },
      log: quietLog,
    });
    bus.onNodeLost((nodeId) => void lost.push(nodeId));
    bus.onReturn(() => void returns++);
    await clock.advance(QUIET_MS);
  });
  afterEach(async () => bus.close());

  it('are lost when they are not registered any more', async () => {
    others = [];
    await clock.advance(BEAT_MS);
    expect(lost).to.deep.equal(['south']);
    expect(bus.isGone('south')).to.equal(true);
    expect(bus.nodes).to.deep.equal(new Set(['north']));
  });

  it('are not lost while Redis is just back, and then are if they have not registered again', async () => {
    isAway = true;
    await clock.advance(BEAT_MS);
    expect(bus.nodes).to.equal(undefined);
    [isAway, others] = [false, []];
    await clock.advance(QUIET_MS);
    expect(lost).to.deep.equal([]);
    await clock.advance(2 * BEAT_MS);
    expect(lost).to.deep.equal(['south']);
  });

  it('are not lost if they register again meanwhile', async () => {
    isAway = true;
    await clock.advance(BEAT_MS);
    [isAway, others] = [false, []];
    await clock.advance(BEAT_MS);
    others = ['south'];
    await clock.advance(2 * QUIET_MS);
    expect(lost).to.deep.equal([]);
    expect(bus.nodes).to.deep.equal(new Set(['north', 'south']));
  });

  it('are not lost while a part of a Redis Cluster is away, and all is told again when it is back', async () => {
    [isWhole, others] = [false, []];
    await clock.advance(3 * BEAT_MS);
    expect([lost, bus.nodes, returns]).to.deep.equal([[], undefined, 0]);
    isWhole = true;
    await clock.advance(BEAT_MS);
    expect([lost, returns]).to.deep.equal([[], 1]);
    await clock.advance(QUIET_MS);
    expect(lost).to.deep.equal(['south']);
    expect(returns).to.equal(1);
  });

  it('tell all again after a time in which this one may have missed messages', async () => {
    miss();
    await clock.advance(BEAT_MS);
    expect(returns).to.equal(1);
  });
});
