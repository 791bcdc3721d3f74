import { expect } from 'chai';
import sinon from 'sinon';
import { RedisClaims } from '../../../../src/platform/cluster/redis-claims.ts';
import type { RedisConnection } from '../../../../src/platform/cluster/redis.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const NOW = Date.parse('2026-01-31T08:00:00Z');

describe('claims on Redis', () => {
  let clock: sinon.SinonFakeTimers;
  let claims: RedisClaims;
  /** What Redis holds, as it holds it. */
  let held: Map<string, string>;
  let epoch: number;
  let isAway: boolean;
  let gone: string[];
  let calls: unknown[][];
  let lookups: string[][];
  /** Redis answers look-ups when this has resolved. */
  let answering: Promise<void>;
  let keys: Set<string>;
  let log: ReturnType<typeof recordingLog>;

  beforeEach(() => {
    clock = sinon.useFakeTimers({ now: NOW, toFake: ['Date'] });
    held = new Map();
    epoch = 0;
    isAway = false;
    [gone, calls, lookups] = [[], [], []];
    answering = Promise.resolve();
    keys = new Set();
    log = recordingLog();
    const client = {
      async eval(script: string, count: number, ...words: (string | number)[]) {
        for (const key of words.slice(0, count)) keys.add(String(key));
        if (isAway) throw new Error('Redis is away');
        if (script.includes('HDEL')) {
          const [, id = '', ended] = words;
          if (held.get(String(id))?.startsWith(`${ended}:`) === true) held.delete(String(id));
          return 0;
        }
        const [, , id = '', second, third] = words;
        const before = held.get(String(id)) ?? null;
        if (script.includes("'^%d+'")) {
          if (before !== null && Number.parseInt(before, 10) > Number(second)) return before;
          held.set(String(id), `${second}:${third}`);
          return before;
        }
        epoch = Math.max(epoch + 1, Number(third));
        held.set(String(id), `${epoch}:${second}`);
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
      redis: { client } as unknown as RedisConnection,
      name: 'devices',
      nodeId: 'north',
      isGone: (nodeId) => gone.includes(nodeId),
      onOutdated: (...args) => void calls.push(['outdated', ...args]),
      onReplaced: (...args) => void calls.push(['replaced', ...args]),
      onUnpublished: () => void calls.push(['unpublished']),
      log: log.log,
    });
  });
  afterEach(() => clock.restore());

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
    clock.setSystemTime(NOW - 100_000);
    isAway = true;
    expect((await claims.claim('device-1', 'north')).epoch).to.equal(NOW + 1002);
  });

  it('are made by the own clock while Redis is away, and published when it is back', async () => {
    isAway = true;
    expect(await claims.claim('device-1', 'north')).to.deep.equal({ epoch: NOW, previous: undefined });
    expect(calls).to.deep.equal([['unpublished']]);
    isAway = false;
    await claims.announce();
    expect(held.get('device-1')).to.equal(`${NOW}:north`);
  });

  it('end with their own epoch, and not with that of an earlier claim', async () => {
    const first = await claims.claim('device-1', 'north');
    const second = await claims.claim('device-1', 'north');
    await claims.release('device-1', first.epoch);
    expect(held.get('device-1')).to.equal(`${second.epoch}:north`);
    // Redis has lost it, and the claim that stands is published again.
    held.clear();
    await claims.announce();
    expect(held.get('device-1')).to.equal(`${second.epoch}:north`);
    await claims.release('device-1', second.epoch);
    expect(held.size).to.equal(0);
    await claims.announce();
    expect(held.size).to.equal(0);
  });

  it('that end while Redis is away are not published again', async () => {
    const { epoch: claimed } = await claims.claim('device-1', 'north');
    isAway = true;
    await claims.release('device-1', claimed);
    isAway = false;
    held.clear();
    await claims.announce();
    expect(held.size).to.equal(0);
  });

  it('that another node has made meanwhile are compared when they are published', async () => {
    await claims.claim('device-1', 'north');
    await claims.claim('device-2', 'north');
    await claims.claim('device-3', 'north');
    held.set('device-1', `${NOW + 500}:south`);
    held.set('device-2', '5:south');
    await claims.announce();
    expect(calls).to.deep.equal([
      ['outdated', 'device-1', NOW + 500],
      ['replaced', 'south', 'device-2', NOW + 1],
    ]);
    expect(held.get('device-2')).to.equal(`${NOW + 1}:north`);
  });

  it('stand under names of their kind, so that two kinds do not meet', async () => {
    const { epoch: claimed } = await claims.claim('device-1', 'north');
    await claims.find('device-1');
    await claims.announce();
    await claims.release('device-1', claimed);
    expect([...keys]).to.deep.equal(['muster:claims:devices', 'muster:epoch:devices']);
  });

  it('are published all, and noted in the log if there are some', async () => {
    await claims.announce();
    expect(log.lines).to.deep.equal([]);
    for (let n = 0; n < 201; n++) await claims.claim(`device-${n}`, 'north');
    held.clear();
    await claims.announce();
    expect(held.size).to.equal(201);
    expect(log.lines.map(({ event, claims: count }) => [event, count])).to.deep.equal([
      ['cluster.claims_told_again', 201],
    ]);
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
