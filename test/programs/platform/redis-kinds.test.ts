import { expect } from 'chai';
import { redisCheck } from '../../../src/cli/doctor/local-checks.ts';
import { openRedis } from '../../../src/platform/cluster/redis.ts';
import type { RedisConnection } from '../../../src/platform/cluster/redis-connection.ts';
import { eventually } from '../../support/eventually.ts';
import { lastingPort } from '../../support/lasting-port.ts';
import { recordingLog } from '../../support/quiet-log.ts';
import { REDIS_GROUPS, type RedisGroup } from '../../support/redis-groups.ts';

const PASSWORD = 'do not/tell@me:';
const SOON_MS = 40_000;

for (const { kind, startOrSkip } of REDIS_GROUPS) {
  describe(`the connection to ${kind}`, function () {
    this.timeout(120_000);
    let redis: RedisGroup;
    let log: ReturnType<typeof recordingLog>;
    let open: RedisConnection[];

    before(async function () {
      redis = await startOrSkip(this);
      for (const port of redis.ports) {
        const password = `>${PASSWORD.replace(' ', '+')}`;
        await redis.ask(port, 'ACL', 'SETUSER', 'muster', 'on', password, '~*', '&*', '+@all');
      }
    });
    after(async () => redis?.remove());
    beforeEach(() => {
      log = recordingLog();
      open = [];
    });
    afterEach(async () => {
      for (const connection of open) await connection.close();
    });

    const urlOf = (password: string, sentinelPassword = password) => {
      const url = redis.url.replace('://', `://muster:${encodeURIComponent(password)}@`);
      const sentinel = `?sentinel_username=muster&sentinel_password=${encodeURIComponent(sentinelPassword)}`;
      return kind === 'a Redis Cluster' ? url : `${url}${sentinel}`;
    };
    const right = PASSWORD.replace(' ', '+');
    const connect = async (url: string) => {
      const connection = await openRedis(url, log.log);
      open.push(connection);
      return connection;
    };
    /** A command fails that is not answered within half a second, as on a machine that is busy. */
    const answered = <T>(command: () => Promise<T>, isRight: (answer: T) => boolean) =>
      eventually(
        () => command().catch(() => undefined),
        (answer) => answer !== undefined && isRight(answer),
        SOON_MS,
      );
    const said = () => JSON.stringify(log.lines);

    it('is made with a user and a password, for commands and for channels', async () => {
      const connection = await connect(urlOf(right));
      await answered(
        () => connection.client.acl('WHOAMI'),
        (person) => person === 'muster',
      );
      const subscriber = await connection.openSubscriber();
      const heard: string[] = [];
      subscriber.onMessage((text) => heard.push(text));
      subscriber.listen(['muster:to:north', 'muster:to-all']);
      await eventually(
        () =>
          Promise.all(
            ['muster:to:north', 'muster:to-all'].map((channel) => connection.publish(channel, channel)),
          ),
        (counts) => counts.join() === '1,1',
        SOON_MS,
      );
      await eventually(
        () => heard,
        (texts) => texts.includes('muster:to:north') && texts.includes('muster:to-all'),
        SOON_MS,
      );
      await answered(
        () => connection.publish('muster:to:nobody', 'x'),
        (listeners) => listeners === 0,
      );
      await subscriber.close();
      const { state } = await redisCheck({ redisUrl: urlOf(right) }).run();
      expect(state).to.equal('ok');
      expect(log.lines).to.deep.equal([]);
    });

    it('is not made with a wrong password, which nobody is told', async () => {
      const connection = await connect(urlOf(`${right}wrong`, right));
      expect([connection.isWhole(), await connection.isUp()]).to.deep.equal([false, false]);
      const error = await connection.client.get('muster:x').catch((thrown: unknown) => thrown);
      expect(error).to.be.instanceOf(Error);
      expect(log.lines.map(({ event, reason }) => [event, reason])).to.deep.equal([
        ['redis.lost', 'WRONGPASS'],
      ]);
      const check = await redisCheck({ redisUrl: urlOf(`${right}wrong`, right) }).run();
      expect(check.state).to.equal('failed');
      for (const text of [said(), JSON.stringify(check)]) {
        expect(text).not.to.include('tell@me').and.not.to.include('tell%40me');
      }
    });

    if (kind === 'Redis with Sentinel') {
      it('is not made with a wrong password for the Sentinels, which nobody is told', async () => {
        const connection = await connect(urlOf(right, `${right}wrong`));
        expect([connection.isWhole(), await connection.isUp()]).to.deep.equal([false, false]);
        expect(log.lines.map(({ event }) => event)).to.deep.equal(['redis.lost']);
        const check = await redisCheck({ redisUrl: urlOf(right, `${right}wrong`) }).run();
        expect(check.state).to.equal('failed');
        for (const text of [said(), JSON.stringify(check)]) expect(text).not.to.include('tell@me');
      });
    }

    it('does not keep a server from its start while nobody answers, and fails commands at once', async () => {
      const port = await lastingPort();
      const nowhere = redis.url.replace(/127\.0\.0\.1[^/]*/, `127.0.0.1:${port}`);
      const connection = await connect(nowhere);
      expect(connection.isWhole()).to.equal(false);
      for (const answer of [connection.client.get('muster:x'), connection.publish('muster:to-all', 'x')]) {
        expect(await answer.catch((thrown: unknown) => thrown)).to.be.instanceOf(Error);
      }
      expect(await connection.isUp()).to.equal(false);
      const subscriber = await connection.openSubscriber();
      subscriber.listen(['muster:to-all']);
      await subscriber.close();
      expect(log.lines.map(({ event }) => event)).to.deep.equal(['redis.lost']);
      expect((await redisCheck({ redisUrl: nowhere }).run()).state).to.equal('failed');
    });

    it('follows a master that gives its place to its replica on purpose', async () => {
      const connection = await connect(urlOf(right));
      const changes: boolean[] = [];
      connection.onChange((isWhole) => changes.push(isWhole));
      const key = 'muster:nodes';
      await answered(
        () => connection.client.set(key, 'before'),
        (answer) => answer === 'OK',
      );
      const former = await redis.masterOf(key);
      const isCluster = kind === 'a Redis Cluster';
      await eventually(
        async () => {
          // A replica that is still being synchronised refuses; the others are none of this master's.
          for (const port of redis.ports) {
            if (isCluster) await redis.ask(port, 'CLUSTER', 'FAILOVER');
            else await redis.ask(port, 'SENTINEL', 'FAILOVER', 'mymaster');
          }
          return redis.masterOf(key).catch(() => former);
        },
        (now) => now !== former,
        SOON_MS,
      );
      await answered(
        () => connection.client.set(key, 'after'),
        (answer) => answer === 'OK',
      );
      // What was written last may be missing there, so it counts as a loss.
      await eventually(
        () => changes,
        (all) => all.includes(false) && all.at(-1) === true,
        SOON_MS,
      );
    });

    it('fails what a lost master would answer, instead of taking the answer of a replica', async () => {
      const connection = await connect(redis.url);
      const keys = Array.from({ length: 100 }, (_, at) => `muster:{devices:${at}}:claims`);
      const read = (key: string) =>
        connection.client.hmget(key, 'id').then(
          ([held]) => held,
          () => 'failed',
        );
      for (const key of keys) {
        await answered(
          () => connection.client.hset(key, 'id', 'held'),
          (fields) => fields >= 0,
        );
      }
      const ports = await redis.masters();
      await Promise.all(ports.map((port) => redis.kill(port)));
      await eventually(
        () => connection.isWhole(),
        (isWhole) => !isWhole,
        SOON_MS,
      );
      const answers = new Set<string | null | undefined>();
      for (const key of keys) answers.add(await read(key));
      expect([...answers]).to.deep.equal(['failed']);
    });
  });
}
