import { expect } from 'chai';
import { openRedis, type RedisConnection } from '../../../src/platform/cluster/redis.ts';
import { RedisClaims } from '../../../src/platform/cluster/redis-claims.ts';
import { quietLog } from '../../support/quiet-log.ts';
import { redisOrSkip, type TestRedis } from '../../support/redis.ts';
import { TestClock } from '../../support/test-clock.ts';
import { clock, type TimeSource } from '../../../src/clock.ts';

/**
 * The scripts that Redis runs for claims. How a node acts on their answers is in
 * test/unit/platform/cluster/redis-claims.test.ts, with a Redis that only imitates them.
 */

const NOW = Date.parse('2026-01-31T08:00:00Z');
const DEVICE = 'device-1';

describe('claims in a real Redis', () => {
  let redis: TestRedis;
  let connection: RedisConnection;
  let time: TestClock;
  let former: TimeSource;
  let calls: unknown[][];
  let north: RedisClaims;
  let south: RedisClaims;

  before(async function () {
    redis = await redisOrSkip(this);
    connection = await openRedis(redis.url, quietLog);
  });
  after(async () => {
    await connection?.close();
    await redis?.remove();
  });
  beforeEach(async () => {
    await connection.client.flushall();
    time = new TestClock({ isRunning: false, at: NOW });
    former = clock.takeTimeFrom(time);
    calls = [];
    [north, south] = [claimsOf('north'), claimsOf('south')];
  });
  afterEach(() => clock.takeTimeFrom(former));

  const claimsOf = (nodeId: string) =>
    new RedisClaims({
      redis: connection,
      name: 'devices',
      nodeId,
      isGone: () => false,
      onOutdated: (...args) => void calls.push([nodeId, 'outdated', ...args]),
      onReplaced: (...args) => void calls.push([nodeId, 'replaced', ...args]),
      onUnpublished: () => void calls.push([nodeId, 'unpublished']),
      log: quietLog,
    });
  /** As after Redis has returned without its data, or with what other nodes have written meanwhile. */
  const holds = async (held: Record<string, string>, epoch?: number) => {
    await connection.client.flushall();
    for (const [id, claim] of Object.entries(held)) {
      await connection.client.hset('muster:claims:devices', id, claim);
    }
    if (epoch !== undefined) await connection.client.set('muster:epoch:devices', epoch);
  };
  const held = async () => connection.client.hgetall('muster:claims:devices');
  const lastEpoch = async () => Number(await connection.client.get('muster:epoch:devices'));

  it('get the clock of their node as epoch, and a greater one than all before if that is behind', async () => {
    expect(await north.claim(DEVICE, 'north')).to.deep.equal({ epoch: NOW, previous: undefined });
    expect(await south.claim('device-2', 'south')).to.deep.equal({ epoch: NOW + 1, previous: undefined });
    time.jump(-3_600_000);
    expect(await south.claim(DEVICE, 'south')).to.deep.equal({
      epoch: NOW + 2,
      previous: { nodeId: 'north', epoch: NOW },
    });
    expect(await held()).to.deep.equal({ [DEVICE]: `${NOW + 2}:south`, 'device-2': `${NOW + 1}:south` });
    expect(await lastEpoch()).to.equal(NOW + 2);
    time.jump(7_200_000);
    expect((await north.claim(DEVICE, 'north')).epoch).to.equal(NOW + 3_600_000);
  });

  it('keep all digits of an epoch', async () => {
    const great = 8_999_999_999_999_999;
    north.epochSeen(great);
    expect((await north.claim(DEVICE, 'north')).epoch).to.equal(great + 1);
    expect(await held()).to.deep.equal({ [DEVICE]: `${great + 1}:north` });
    expect(await lastEpoch()).to.equal(great + 1);
  });

  it('end with their own epoch, and leave a newer claim and those of other devices', async () => {
    const first = await north.claim(DEVICE, 'north');
    await south.claim('device-2', 'south');
    const second = await south.claim(DEVICE, 'south');
    await north.release(DEVICE, first.epoch);
    expect(await south.find(DEVICE)).to.deep.equal({ nodeId: 'south', epoch: second.epoch });
    // An epoch is compared as a whole, not by its first digits.
    await north.release(DEVICE, Math.floor(second.epoch / 10));
    expect(await south.find(DEVICE)).to.deep.equal({ nodeId: 'south', epoch: second.epoch });
    await south.release(DEVICE, second.epoch);
    expect(Object.keys(await held())).to.deep.equal(['device-2']);
    await south.release(DEVICE, second.epoch);
  });

  it('are announced to a Redis that has lost its data, with the epochs from which it goes on', async () => {
    time.jump(3_600_000);
    const { epoch } = await north.claim(DEVICE, 'north');
    time.jump(-3_600_000);
    await holds({});
    await north.announce();
    expect(await held()).to.deep.equal({ [DEVICE]: `${epoch}:north` });
    expect(await lastEpoch()).to.equal(epoch);
    // The clock of the other node is an hour behind, and its claim is the newer one nevertheless.
    const newer = await south.claim(DEVICE, 'south');
    expect(newer).to.deep.equal({ epoch: epoch + 1, previous: { nodeId: 'north', epoch } });
    expect(calls).to.deep.equal([]);
  });

  it('are announced without setting the epochs back', async () => {
    const { epoch } = await north.claim(DEVICE, 'north');
    await holds({}, epoch + 50);
    await north.announce();
    expect(await lastEpoch()).to.equal(epoch + 50);
  });

  it('that are announced give way to a newer one, and replace an older one or one of the same moment', async () => {
    await north.claim(DEVICE, 'north');
    await north.claim('device-2', 'north');
    await north.claim('device-3', 'north');
    await holds({
      [DEVICE]: `${NOW + 500}:south`,
      'device-2': `${NOW - 500}:south`,
      'device-3': `${NOW + 2}:south`,
    });
    await north.announce();
    expect(await held()).to.deep.equal({
      [DEVICE]: `${NOW + 500}:south`,
      'device-2': `${NOW + 1}:north`,
      'device-3': `${NOW + 2}:north`,
    });
    expect(calls).to.have.deep.members([
      ['north', 'outdated', DEVICE, NOW + 500],
      ['north', 'replaced', 'south', 'device-2', NOW + 1],
      ['north', 'replaced', 'south', 'device-3', NOW + 2],
    ]);
  });

  it('compare epochs as numbers', async () => {
    await holds({ [DEVICE]: '999:south' }, 999);
    time.jump(1000 - NOW);
    expect((await north.claim(DEVICE, 'north')).epoch).to.equal(1000);
    await holds({ [DEVICE]: '999:south' }, 999);
    await north.announce();
    expect(await held()).to.deep.equal({ [DEVICE]: '1000:north' });
    expect(await lastEpoch()).to.equal(1000);
  });
});
