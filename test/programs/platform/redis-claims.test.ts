import { expect } from 'chai';
import { clock, type TimeSource } from '../../../src/clock.ts';
import { redisCheck } from '../../../src/cli/doctor/local-checks.ts';
import { openRedis } from '../../../src/platform/cluster/redis.ts';
import { bucketOf, RedisClaims } from '../../../src/platform/cluster/redis-claims.ts';
import type { RedisConnection } from '../../../src/platform/cluster/redis-connection.ts';
import { eventually } from '../../support/eventually.ts';
import { quietLog, recordingLog } from '../../support/quiet-log.ts';
import { REDIS_KINDS, type RedisGroup } from '../../support/redis-groups.ts';
import { TestClock } from '../../support/test-clock.ts';

/**
 * The scripts that Redis runs for claims. How a node acts on their answers is in
 * test/unit/platform/cluster/redis-claims.test.ts, with a Redis that only imitates them.
 */

const NOW = Date.parse('2026-01-31T08:00:00Z');
const DEVICE = 'device-1';

for (const { kind, startOrSkip } of REDIS_KINDS) {
  describe(`claims in ${kind}`, function () {
    this.timeout(60_000);
    let redis: Pick<RedisGroup, 'url' | 'remove'>;
    let connection: RedisConnection;
    let time: TestClock;
    let former: TimeSource;
    let calls: unknown[][];
    let log: ReturnType<typeof recordingLog>;
    let all: RedisClaims[];
    let north: RedisClaims;
    let south: RedisClaims;

    before(async function () {
      redis = await startOrSkip(this);
      connection = await openRedis(redis.url, quietLog);
    });
    after(async () => {
      await connection?.close();
      await redis?.remove();
    });
    beforeEach(async () => {
      await empty();
      time = new TestClock({ isRunning: false, at: NOW });
      former = clock.takeTimeFrom(time);
      [calls, all, log] = [[], [], recordingLog()];
      [north, south] = [claimsOf('north'), claimsOf('south')];
    });
    afterEach(() => {
      for (const claims of all) claims.close();
      clock.takeTimeFrom(former);
    });

    const claimsOf = (nodeId: string) => {
      const claims = new RedisClaims({
        redis: connection,
        name: 'devices',
        nodeId,
        isGone: () => false,
        onOutdated: (...args) => void calls.push([nodeId, 'outdated', ...args]),
        onReplaced: (...args) => void calls.push([nodeId, 'replaced', ...args]),
        onTied: (...args) => void calls.push([nodeId, 'tied', ...args]),
        onUnanswered: (...args) => void calls.push([nodeId, 'unanswered', ...args]),
        log: log.log,
      });
      all.push(claims);
      return claims;
    };
    const empty = async () => {
      const { client } = connection;
      const servers = 'nodes' in client ? client.nodes('master') : [client];
      await Promise.all(servers.map((server) => server.flushall()));
    };
    const keyOf = (id: string, what: 'claims' | 'epoch') => `muster:{devices:${bucketOf(id)}}:${what}`;
    /** As after Redis has returned without its data, or with what other nodes have written meanwhile. */
    const holds = async (held: Record<string, string>, epoch?: number) => {
      await empty();
      for (const [id, claim] of Object.entries(held)) {
        await connection.client.hset(keyOf(id, 'claims'), id, claim);
        if (epoch !== undefined) await connection.client.set(keyOf(id, 'epoch'), epoch);
      }
    };
    const held = async (id = DEVICE) => connection.client.hget(keyOf(id, 'claims'), id);
    const lastEpoch = async () => Number(await connection.client.get(keyOf(DEVICE, 'epoch')));
    /** The connection answers in the machine's time. */
    const announce = async (claims: RedisClaims) => {
      time.run();
      log.lines.length = 0;
      claims.announce();
      await eventually(
        () => log.lines.map(({ event }) => event),
        (events) =>
          events.includes('cluster.claims_told_again') && events.at(-1) !== 'cluster.claims_not_told',
      );
      time.stop();
    };

    /** A few at a time: a command that waits for half a second fails. */
    const claimAll = async (ids: readonly string[]) => {
      for (let start = 0; start < ids.length; start += 20) {
        await Promise.all(ids.slice(start, start + 20).map((id) => north.claim(id, 'north')));
      }
    };

    it('get the clock of their node as epoch, and a greater one than all before if that is behind', async () => {
      expect(await north.claim(DEVICE, 'north')).to.deep.equal({ epoch: NOW, previous: undefined });
      time.jump(-3_600_000);
      expect(await south.claim(DEVICE, 'south')).to.deep.equal({
        epoch: NOW + 1,
        previous: { nodeId: 'north', epoch: NOW },
      });
      expect(await held()).to.equal(`${NOW + 1}:south`);
      expect(await lastEpoch()).to.equal(NOW + 1);
      time.jump(7_200_000);
      expect((await north.claim(DEVICE, 'north')).epoch).to.equal(NOW + 3_600_000);
    });

    it('keep all digits of an epoch', async () => {
      const great = 8_999_999_999_999_999;
      north.epochSeen(great);
      expect((await north.claim(DEVICE, 'north')).epoch).to.equal(great + 1);
      expect(await held()).to.equal(`${great + 1}:north`);
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
      expect([await held(), (await held('device-2')) === null]).to.deep.equal([null, false]);
      await south.release(DEVICE, second.epoch);
    });

    it('are found together, however many are asked for in one turn', async () => {
      const ids = Array.from({ length: 1200 }, (_, n) => `device-${n}`);
      await claimAll(ids.filter((_id, n) => n % 3 > 0));
      const found = await Promise.all(ids.map((id) => south.find(id)));
      expect(found.map((claim) => claim?.nodeId)).to.deep.equal(
        ids.map((_id, n) => (n % 3 === 0 ? undefined : 'north')),
      );
    });

    it('are announced to a Redis that has lost its data, with the epochs from which it goes on', async () => {
      time.jump(3_600_000);
      const { epoch } = await north.claim(DEVICE, 'north');
      time.jump(-3_600_000);
      await holds({});
      await announce(north);
      expect(await held()).to.equal(`${epoch}:north`);
      expect(await lastEpoch()).to.equal(epoch);
      // The clock of the other node is an hour behind, and its claim is the newer one nevertheless.
      const newer = await south.claim(DEVICE, 'south');
      expect(newer).to.deep.equal({ epoch: epoch + 1, previous: { nodeId: 'north', epoch } });
      expect(calls).to.deep.equal([]);
    });

    it('are announced without setting the epochs back', async () => {
      const { epoch } = await north.claim(DEVICE, 'north');
      await empty();
      await connection.client.set(keyOf(DEVICE, 'epoch'), epoch + 50);
      await announce(north);
      expect(await held()).to.equal(`${epoch}:north`);
      expect(await lastEpoch()).to.equal(epoch + 50);
    });

    it('that are announced give way to a newer one, replace an older one, and are tied with one of the same moment', async () => {
      const epochs: number[] = [];
      for (const id of [DEVICE, 'device-2', 'device-3']) epochs.push((await north.claim(id, 'north')).epoch);
      const [, second = 0, third = 0] = epochs;
      await holds({
        [DEVICE]: `${NOW + 500}:south`,
        'device-2': `${second - 500}:south`,
        'device-3': `${third}:south`,
      });
      await announce(north);
      expect([await held(), await held('device-2'), await held('device-3')]).to.deep.equal([
        `${NOW + 500}:south`,
        `${second}:north`,
        `${third}:south`,
      ]);
      expect(calls).to.have.deep.members([
        ['north', 'outdated', DEVICE, NOW + 500],
        ['north', 'replaced', 'south', 'device-2', second],
        ['north', 'tied', 'device-3'],
      ]);
      // The node that made an equal claim hears of the one in its place.
      expect((await north.claim('device-3', 'north')).previous).to.deep.equal({
        nodeId: 'south',
        epoch: third,
      });
    });

    it('of one bucket are announced in one command, and one that is no claim stops none of the others', async () => {
      const ids: string[] = [];
      for (let n = 0; ids.length < 700; n++) if (bucketOf(`one-${n}`) === 7) ids.push(`one-${n}`);
      const [first = '', second = '', third = ''] = ids;
      await claimAll(ids);
      const { epoch } = (await north.find(second)) ?? { epoch: 0 };
      await holds({ [first]: 'nonsense', [second]: `${epoch - 1}:south`, [third]: `${NOW + 5000}:south` });
      await announce(north);
      const stored = await connection.client.hgetall(keyOf(first, 'claims'));
      expect(Object.keys(stored)).to.have.members(ids);
      expect(Object.values(stored).filter((claim) => !claim.endsWith(':north'))).to.deep.equal([
        `${NOW + 5000}:south`,
      ]);
      expect(calls).to.have.deep.members([
        ['north', 'replaced', 'south', second, epoch],
        ['north', 'outdated', third, NOW + 5000],
      ]);
    });

    it('compare epochs as numbers', async () => {
      await holds({ [DEVICE]: '999:south' }, 999);
      time.jump(1000 - NOW);
      expect((await north.claim(DEVICE, 'north')).epoch).to.equal(1000);
      await holds({ [DEVICE]: '999:south' }, 999);
      await announce(north);
      expect(await held()).to.equal('1000:north');
      expect(await lastEpoch()).to.equal(1000);
    });

    it('are in a Redis that the check of the operator reaches', async () => {
      const { state, message } = await redisCheck({ redisUrl: redis.url }).run();
      expect([state, message]).to.deep.equal(['ok', message]);
      expect(message).to.match(kind === 'a Redis Cluster' ? /^3 masters\. Redis 7/ : /^Redis \d/);
    });
  });
}
