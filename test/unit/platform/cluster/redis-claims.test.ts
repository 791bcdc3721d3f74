import { expect } from 'chai';
import fc from 'fast-check';
import { randomUUID } from 'node:crypto';
import { clock, type TimeSource } from '../../../../src/clock.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { bucketOf, BUCKETS, RedisClaims } from '../../../../src/platform/cluster/redis-claims.ts';
import type { RedisConnection } from '../../../../src/platform/cluster/redis-connection.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import { TestClock } from '../../../support/test-clock.ts';

const NOW = Date.parse('2026-01-31T08:00:00Z');
/** An announcement is spread over two seconds, and what fails is tried again after one. */
const ALL_TOLD_MS = 4000;

describe('buckets of claims', () => {
  // The numbers are those of Python's zlib.crc32.
  it('are the same in every program, for ever: another one would not find the claims of this one', () => {
    const vector = {
      '': 0,
      'device-1': 121,
      'device-2': 195,
      '01890a5d-ac96-774b-bcce-b302099a8057': 117,
      '9f1c2a60-3f0e-4f5e-8a60-2f6d2b1d9c11': 186,
      Gerät: 140,
    };
    expect(Object.fromEntries(Object.keys(vector).map((id) => [id, bucketOf(id)]))).to.deep.equal(vector);
    expect(BUCKETS).to.equal(256);
  });

  it('are one of 256 for any text', () => {
    fc.assert(
      fc.property(fc.string(), (id) => {
        expect(bucketOf(id)).to.be.within(0, BUCKETS - 1);
        expect(bucketOf(id)).to.equal(bucketOf(id));
      }),
    );
  });

  for (const [kind, make] of [
    ['ids of one moment, which differ at their end', newId],
    ['random ids', () => randomUUID()],
    ['numbered ids', (n: number) => `device-${n}`],
  ] as const) {
    it(`are about equally full: ${kind}`, () => {
      const counts = Array.from({ length: BUCKETS }, () => 0);
      for (let n = 0; n < 100 * BUCKETS; n++) {
        const bucket = bucketOf(make(n));
        counts[bucket] = (counts[bucket] ?? 0) + 1;
      }
      // By chance alone, one of 256 in ten billion runs would be outside.
      expect(Math.min(...counts)).to.be.above(30);
      expect(Math.max(...counts)).to.be.below(190);
    });
  }
});

describe('claims on Redis', () => {
  let time: TestClock;
  let former: TimeSource;
  let claims: RedisClaims;
  /** What Redis holds, as it holds it: the claims of all buckets. */
  let held: Map<string, string>;
  let epochs: Map<string, number>;
  let isAway: boolean;
  let isWhole: boolean;
  let isSharded: boolean;
  let gone: string[];
  let calls: unknown[][];
  let lookups: string[][];
  /** The ids of each command that claims again. */
  let told: string[][];
  /** Redis answers look-ups when this has resolved. */
  let answering: Promise<void>;
  /** Called before Redis takes claims again. */
  let beforeTold: (ids: string[]) => void | Promise<void>;
  let keys: Set<string>;
  let log: ReturnType<typeof recordingLog>;

  beforeEach(() => {
    time = new TestClock({ isRunning: false, at: NOW });
    former = clock.takeTimeFrom(time);
    [held, epochs] = [new Map(), new Map()];
    [isAway, isWhole, isSharded] = [false, true, false];
    [gone, calls, lookups, told] = [[], [], [], []];
    answering = Promise.resolve();
    beforeTold = () => {};
    keys = new Set();
    log = recordingLog();
    const release = (id: string, ended: string) => {
      if (held.get(id)?.startsWith(`${ended}:`) === true) held.delete(id);
      return 0;
    };
    const reclaim = async (epochKey: string, [nodeId = '', ...pairs]: string[]) => {
      const ids = pairs.filter((_word, at) => at % 2 === 0);
      told.push(ids);
      await beforeTold(ids);
      return ids.flatMap((id, at) => {
        const epoch = Number(pairs[2 * at + 1]);
        const before = held.get(id);
        epochs.set(epochKey, Math.max(epochs.get(epochKey) ?? 0, epoch));
        if (before === undefined || Number.parseInt(before, 10) < epoch) held.set(id, `${epoch}:${nodeId}`);
        return before === undefined || before === `${epoch}:${nodeId}` ? [] : [at, before];
      });
    };
    const client = {
      async eval(script: string, count: number, ...words: (string | number)[]) {
        const [names, rest] = [words.slice(0, count).map(String), words.slice(count).map(String)];
        for (const key of names) keys.add(key);
        if (isAway) throw new Error('Redis is away');
        const [id = '', second = '', third = ''] = rest;
        if (script.includes('HDEL')) return release(id, second);
        if (script.includes('HMGET')) return reclaim(names[1] ?? '', rest);
        if (script.includes('ipairs(KEYS)')) {
          lookups.push(rest);
          await answering;
          return rest.map((asked) => held.get(asked) ?? null);
        }
        const before = held.get(id) ?? null;
        const epoch = Math.max((epochs.get(names[1] ?? '') ?? 0) + 1, Number(third));
        epochs.set(names[1] ?? '', epoch);
        held.set(id, `${epoch}:${second}`);
        return [String(epoch), before];
      },
      async hmget(key: string, ...ids: string[]) {
        keys.add(key);
        if (isAway) throw new Error('Redis is away');
        lookups.push(ids);
        await answering;
        return ids.map((id) => held.get(id) ?? null);
      },
    };
    claims = new RedisClaims({
      redis: {
        client,
        isWhole: () => isWhole,
        get isSharded() {
          return isSharded;
        },
      } as unknown as RedisConnection,
      name: 'devices',
      nodeId: 'north',
      isGone: (nodeId) => gone.includes(nodeId),
      onOutdated: (...args) => void calls.push(['outdated', ...args]),
      onReplaced: (...args) => void calls.push(['replaced', ...args]),
      onTied: (...args) => void calls.push(['tied', ...args]),
      onUnanswered: (...args) => void calls.push(['unanswered', ...args]),
      log: log.log,
    });
  });
  afterEach(() => {
    claims.close();
    clock.takeTimeFrom(former);
  });

  const announced = async () => {
    claims.announce();
    await time.advance(ALL_TOLD_MS);
  };
  const makeClaims = async (count: number) => {
    for (let n = 0; n < count; n++) await claims.claim(`device-${n}`, 'north');
  };
  /** Ids of one bucket. */
  const sameBucket = (count: number): string[] => {
    const ids: string[] = [];
    for (let n = 0; ids.length < count; n++) if (bucketOf(`device-${n}`) === 7) ids.push(`device-${n}`);
    return ids;
  };

  it('get epochs that grow, and name the claim that they replace', async () => {
    expect(await claims.claim('device-1', 'north')).to.deep.equal({ epoch: NOW, previous: undefined });
    expect(await claims.claim('device-1', 'north')).to.deep.equal({
      epoch: NOW + 1,
      previous: { nodeId: 'north', epoch: NOW },
    });
    held.set('device-2', '5:node:with:colons');
    expect((await claims.claim('device-2', 'north')).previous).to.deep.equal({
      nodeId: 'node:with:colons',
      epoch: 5,
    });
  });

  it('get epochs above those that were stored, also when the clock was set back', async () => {
    claims.epochSeen(NOW + 1000);
    claims.epochSeen(NOW);
    expect((await claims.claim('device-1', 'north')).epoch).to.equal(NOW + 1001);
    time.jump(-100_000);
    isAway = true;
    expect((await claims.claim('device-1', 'north')).epoch).to.equal(NOW + 1002);
  });

  it('are made by the own clock while Redis is away, and published when it answers, without being told to', async () => {
    isAway = true;
    expect(await claims.claim('device-1', 'north')).to.deep.equal({ epoch: NOW, previous: undefined });
    await time.advance(ALL_TOLD_MS);
    expect(held.size).to.equal(0);
    isAway = false;
    await time.advance(ALL_TOLD_MS);
    expect(held.get('device-1')).to.equal(`${NOW}:north`);
    const commands = told.length;
    await time.advance(ALL_TOLD_MS);
    expect(told.length).to.equal(commands);
  });

  it('are not tried while a part of Redis is away: they are announced when it is whole', async () => {
    await makeClaims(3);
    held.clear();
    isWhole = false;
    await announced();
    expect(told).to.deep.equal([]);
    isWhole = true;
    await announced();
    expect(held.size).to.equal(3);
  });

  it('end with their own epoch, and not with that of an earlier claim', async () => {
    const first = await claims.claim('device-1', 'north');
    const second = await claims.claim('device-1', 'north');
    await claims.release('device-1', first.epoch);
    expect(held.get('device-1')).to.equal(`${second.epoch}:north`);
    // Redis has lost it, and the claim that stands is published again.
    held.clear();
    await announced();
    expect(held.get('device-1')).to.equal(`${second.epoch}:north`);
    await claims.release('device-1', second.epoch);
    expect(held.size).to.equal(0);
    await announced();
    expect(held.size).to.equal(0);
  });

  it('that end while Redis is away are not published again', async () => {
    const { epoch: claimed } = await claims.claim('device-1', 'north');
    isAway = true;
    await claims.release('device-1', claimed);
    isAway = false;
    held.clear();
    await announced();
    expect(held.size).to.equal(0);
  });

  it('that another node has made meanwhile are compared when they are published', async () => {
    const first = await claims.claim('device-1', 'north');
    const second = await claims.claim('device-2', 'north');
    await claims.claim('device-3', 'north');
    const fourth = await claims.claim('device-4', 'north');
    held.set('device-1', `${first.epoch + 500}:south`);
    held.set('device-2', '5:south');
    held.set('device-4', `${fourth.epoch}:south`);
    await announced();
    expect(calls).to.have.deep.members([
      ['outdated', 'device-1', first.epoch + 500],
      ['replaced', 'south', 'device-2', second.epoch],
      ['tied', 'device-4'],
    ]);
    expect(held.get('device-1')).to.equal(`${first.epoch + 500}:south`);
    expect(held.get('device-2')).to.equal(`${second.epoch}:north`);
    const tied = { nodeId: 'south', epoch: fourth.epoch };
    expect((await claims.claim('device-4', 'north')).previous).to.deep.equal(tied);
  });

  it('that Redis has carried out, but answered too late, are made again where their epoch is greater', async () => {
    const { epoch } = await claims.claim('device-1', 'north');
    const { epoch: greater } = await claims.claim('device-2', 'north');
    held.set('device-1', `${epoch + 1}:north`);
    held.set('device-2', `${greater - 1}:north`);
    await announced();
    const byDevice = (one: unknown[], other: unknown[]) => String(one[1]).localeCompare(String(other[1]));
    expect(calls.toSorted(byDevice)).to.deep.equal([
      ['unanswered', 'device-1', epoch + 1],
      ['tied', 'device-1'],
      ['unanswered', 'device-2', greater],
    ]);
    expect(held.get('device-2')).to.equal(`${greater}:north`);
  });

  it('stand under names of their kind and bucket, which a cluster keeps together', async () => {
    const { epoch: claimed } = await claims.claim('device-1', 'north');
    await claims.find('device-1');
    isSharded = true;
    await claims.find('device-1');
    await announced();
    await claims.release('device-1', claimed);
    const own = `muster:{devices:${bucketOf('device-1')}}`;
    expect([...keys]).to.deep.equal([`${own}:claims`, `${own}:epoch`]);
  });

  it('are published all, a bucket in one command, and noted in the log if there are some', async () => {
    await announced();
    expect(log.lines).to.deep.equal([]);
    await makeClaims(2000);
    held.clear();
    await announced();
    expect(held.size).to.equal(2000);
    expect(told).to.have.lengthOf(BUCKETS);
    for (const ids of told) expect(new Set(ids.map(bucketOf)).size).to.equal(1);
    expect(log.lines.map(({ event, claims: count }) => [event, count])).to.deep.equal([
      ['cluster.claims_told_again', 2000],
    ]);
  });

  it('of a large bucket are published in commands of at most 500', async () => {
    const ids = sameBucket(1201);
    for (const id of ids) await claims.claim(id, 'north');
    held.clear();
    await announced();
    expect(told.map(({ length }) => length)).to.deep.equal([500, 500, 201]);
    expect([...held.keys()].sort()).to.deep.equal(ids.sort());
  });

  it('are published over two seconds, in another order each time, one command after the other', async () => {
    await makeClaims(2000);
    let [running, most] = [0, 0];
    beforeTold = async () => {
      most = Math.max(most, ++running);
      await Promise.resolve();
      running -= 1;
    };
    claims.announce();
    await time.advance(1000);
    expect(told.length).to.be.within(100, 156);
    await time.advance(ALL_TOLD_MS);
    expect(told).to.have.lengthOf(BUCKETS);
    expect(most).to.equal(1);
    const order = told.map(([id = '']) => bucketOf(id));
    told.length = 0;
    await announced();
    const again = told.map(([id = '']) => bucketOf(id));
    expect(again).not.to.deep.equal(order);
    expect(again).to.have.members(order);
  });

  it('that end while others are published are not published', async () => {
    await makeClaims(2000);
    held.clear();
    const ended: string[] = [];
    beforeTold = async () => {
      // Of each bucket that is yet to come, and of this one.
      for (const id of ['device-5', 'device-500', 'device-1500']) {
        if (ended.includes(id)) continue;
        ended.push(id);
        // Redis has forgotten it, so that only the node could bring it back.
        await claims.release(id, NOW + Number(id.slice(7)));
      }
    };
    await announced();
    expect(held.size).to.equal(1997);
    for (const id of ended) expect(held.has(id), id).to.equal(false);
  });

  it('that end while they are on their way end there too, in whatever order Redis has taken both', async () => {
    const { epoch } = await claims.claim('device-1', 'north');
    held.clear();
    beforeTold = () => claims.release('device-1', epoch);
    await announced();
    expect(told).to.deep.equal([['device-1']]);
    expect(held.size).to.equal(0);
  });

  it('that are made while others are published keep their epochs', async () => {
    await makeClaims(2000);
    held.clear();
    let newer: { epoch: number } | undefined;
    let newcomer: { epoch: number } | undefined;
    beforeTold = async () => {
      if (newer !== undefined) return;
      newer = { epoch: 0 };
      newer = await claims.claim('device-7', 'north');
      newcomer = await claims.claim('newcomer', 'north');
    };
    await announced();
    expect(held.get('device-7')).to.equal(`${newer?.epoch}:north`);
    expect(held.get('newcomer')).to.equal(`${newcomer?.epoch}:north`);
    expect(held.size).to.equal(2001);
    expect(calls).to.deep.equal([]);
  });

  it('of other buckets are published although one cannot be, and that one as soon as it can', async () => {
    await makeClaims(2000);
    held.clear();
    let isBroken = true;
    beforeTold = (ids) => {
      if (isBroken && ids.includes('device-1')) throw new Error('WRONGTYPE');
    };
    await announced();
    const missing = Array.from({ length: 2000 }, (_, n) => `device-${n}`).filter((id) => !held.has(id));
    expect(missing).to.include('device-1');
    expect(new Set(missing.map(bucketOf)).size).to.equal(1);
    isBroken = false;
    await time.advance(ALL_TOLD_MS);
    expect(held.size).to.equal(2000);
    expect(log.lines.some(({ event }) => event === 'cluster.claims_not_told')).to.equal(true);
  });

  it('are all published although Redis has lost them once more meanwhile', async () => {
    await makeClaims(2000);
    held.clear();
    claims.announce();
    await time.advance(1000);
    held.clear();
    claims.announce();
    await time.advance(2 * ALL_TOLD_MS);
    expect(held.size).to.equal(2000);
  });

  it('are not published after the end', async () => {
    await makeClaims(2000);
    held.clear();
    claims.announce();
    await time.advance(1000);
    const before = told.length;
    claims.close();
    await time.advance(ALL_TOLD_MS);
    claims.announce();
    await time.advance(ALL_TOLD_MS);
    expect(told.length).to.equal(before);
    expect(time.pending).to.equal(0);
  });

  it('in a form that this version does not know count as none', async () => {
    for (const text of ['south', ':south', '5:', 'x5:south']) {
      held.set('device-1', text);
      expect(await claims.find('device-1'), text).to.equal(undefined);
    }
  });

  it('are found while their node lives', async () => {
    held.set('device-1', '5:south');
    expect(await claims.find('device-1')).to.deep.equal({ nodeId: 'south', epoch: 5 });
    expect(await claims.find('device-2')).to.equal(undefined);
    gone = ['south'];
    expect(await claims.find('device-1')).to.equal(undefined);
  });

  it('that are looked up in one turn are looked up together', async () => {
    held.set('device-2', '5:south');
    const found = await Promise.all(['device-1', 'device-2'].map((id) => claims.find(id)));
    expect(found).to.deep.equal([undefined, { nodeId: 'south', epoch: 5 }]);
    await claims.find('device-1');
    expect(lookups).to.deep.equal([['device-1', 'device-2'], ['device-1']]);
    isAway = true;
    const error = await claims.find('device-1').catch((thrown: unknown) => thrown);
    expect((error as Error).message).to.equal('Redis is away');
  });

  it('that are looked up in one turn are looked up by bucket in a cluster, and at most 500 in one command', async () => {
    isSharded = true;
    const [one = '', two = ''] = sameBucket(2);
    held.set('device-2', '5:south');
    held.set(two, '6:south');
    const found = await Promise.all([one, 'device-2', two].map((id) => claims.find(id)));
    expect(found.map((claim) => claim?.epoch)).to.deep.equal([undefined, 5, 6]);
    expect(lookups).to.deep.equal([[one, two], ['device-2']]);
    isSharded = false;
    lookups.length = 0;
    await Promise.all(Array.from({ length: 1001 }, (_, n) => claims.find(`device-${n}`)));
    expect(lookups.map(({ length }) => length)).to.deep.equal([500, 500, 1]);
  });

  it('that are looked up while Redis has yet to answer others are looked up by themselves', async () => {
    held.set('device-2', '5:south');
    let answers = () => {};
    answering = new Promise((resolve) => (answers = resolve));
    const first = claims.find('device-1');
    const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
    await turn();
    await turn();
    expect(lookups).to.deep.equal([['device-1']]);
    const second = claims.find('device-2');
    await turn();
    await turn();
    answers();
    expect([await first, await second]).to.deep.equal([undefined, { nodeId: 'south', epoch: 5 }]);
    expect(lookups).to.deep.equal([['device-1'], ['device-2']]);
  });
});
