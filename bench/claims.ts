import { readFileSync } from 'node:fs';
import { Writable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { openRedis } from '../src/platform/cluster/redis.ts';
import { RedisClaims } from '../src/platform/cluster/redis-claims.ts';
import type { RedisConnection } from '../src/platform/cluster/redis-connection.ts';
import { newId } from '../src/platform/ids.ts';
import { createLogger } from '../src/platform/logger.ts';
import { startRedis } from '../test/support/redis.ts';
import { startCluster } from '../test/support/redis-groups.ts';

/**
 * `npm run bench:claims`: what it costs to publish the claims of a node again after a loss of Redis, and to look claims
 * up. The baseline is the former way on the same Redis: one hash for all claims, one script for each of them, a hundred
 * at a time, and one HMGET for the look-ups of a turn. `DEVICES` and `NODES` set the sizes.
 */

const DEVICES = Number(process.env['DEVICES'] ?? 100_000);
const NODES = Number(process.env['NODES'] ?? 50);
const LOOKED_UP = 40_000;
const FORMER_CLAIMS = 'bench:claims:devices';
const FORMER_EPOCH = 'bench:epoch:devices';
const FORMER_RECLAIM = `
  local held = redis.call('HGET', KEYS[1], ARGV[1])
  if held and tonumber(string.match(held, '^%d+')) > tonumber(ARGV[2]) then return held end
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ':' .. ARGV[3])
  if tonumber(redis.call('GET', KEYS[2]) or '0') < tonumber(ARGV[2]) then redis.call('SET', KEYS[2], ARGV[2]) end
  return held`;

const log = createLogger('error');
let formerTurn: { asked: string[]; answers: Promise<(string | null)[]> } | undefined;
const ids = Array.from({ length: DEVICES }, () => newId());

const redis = await startRedis();
const connection = await openRedis(redis.url, log);
const other = await openRedis(redis.url, log);
try {
  console.log(`Publish ${DEVICES} claims again`);
  const one = nodeOf(connection, 'node-0');
  await claimAll([one]);
  const rows = [];
  for (const what of ['Redis has kept them', 'Redis has lost them']) {
    const isLost = what.endsWith('lost them');
    if (!isLost) await formerReclaim();
    if (isLost) await connection.client.flushall();
    rows.push({ what, how: 'former: a script each', ...(await measured(formerReclaim)) });
    if (isLost) await connection.client.flushall();
    rows.push({ what, how: 'by buckets', ...(await measured(() => one.announce())) });
  }
  one.claims.close();
  const many = await Promise.all(
    Array.from({ length: NODES }, async (_, at) => nodeOf(await openRedis(redis.url, log), `node-${at}`)),
  );
  await claimAll(many);
  await connection.client.flushall();
  rows.push({
    what: `lost, ${NODES} nodes at once`,
    how: 'by buckets',
    ...(await measured(() => Promise.all(many.map((node) => node.announce())))),
  });
  for (const { claims } of many) claims.close();
  console.table(rows);

  console.log('Look claims up');
  await connection.client.flushall();
  await formerReclaim();
  const finder = nodeOf(connection, 'node-0');
  await claimAll([finder]);
  const former = (some: string[]) => Promise.all(some.map(formerLookUp));
  const find = (node: Node) => (some: string[]) => Promise.all(some.map((id) => node.claims.find(id)));
  const group = await startCluster();
  const sharded = await openRedis(group.url, log);
  const shardedFinder = nodeOf(sharded, 'node-0');
  await claimAll([shardedFinder]);
  const table = [];
  for (const together of [1, 5, 20, 100, 500]) {
    table.push({
      'ids in a turn': together,
      'former, µs an id': await perId(together, former, [redis.pid]),
      'by buckets, µs an id': await perId(together, find(finder), [redis.pid]),
      'Redis Cluster, µs an id': await perId(together, find(shardedFinder), group.pids),
    });
  }
  console.table(table);
  await sharded.close();
  await group.remove();
} finally {
  await redis.remove();
}
process.exit(0);

interface Node {
  claims: RedisClaims;
  /** Resolves when all claims have been published. */
  announce: () => Promise<void>;
}

function nodeOf(redisOfNode: RedisConnection, nodeId: string): Node {
  let isTold = () => {};
  const claims = new RedisClaims({
    redis: redisOfNode,
    name: 'devices',
    nodeId,
    isGone: () => false,
    onOutdated: () => {},
    onReplaced: () => {},
    onTied: () => {},
    onUnanswered: () => {},
    // Only what it says at the end is of interest.
    log: createLogger(
      'info',
      new Writable({
        write(line: Buffer, _encoding, done) {
          if (line.includes('cluster.claims_told_again')) isTold();
          done();
        },
      }),
    ),
  });
  return {
    claims,
    announce: () =>
      new Promise<void>((resolve) => {
        isTold = resolve;
        claims.announce();
      }),
  };
}

async function claimAll(nodes: readonly Node[]): Promise<void> {
  for (let start = 0; start < ids.length; start += 100) {
    await Promise.all(
      ids
        .slice(start, start + 100)
        .map(async (id, at) => nodes[(start + at) % nodes.length]?.claims.claim(id, 'node-0')),
    );
  }
}

async function formerReclaim(): Promise<void> {
  for (let start = 0; start < ids.length; start += 100) {
    await Promise.all(
      ids
        .slice(start, start + 100)
        .map((id) =>
          connection.client.eval(FORMER_RECLAIM, 2, FORMER_CLAIMS, FORMER_EPOCH, id, 1_769_846_400_000, 'a'),
        ),
    );
  }
}

async function formerLookUp(id: string): Promise<string | null> {
  if (formerTurn === undefined) {
    const asked: string[] = [];
    const answers = new Promise<void>((turn) => setImmediate(turn)).then(() => {
      formerTurn = undefined;
      return connection.client.hmget(FORMER_CLAIMS, ...asked);
    });
    formerTurn = { asked, answers };
  }
  const at = formerTurn.asked.push(id) - 1;
  return (await formerTurn.answers)[at] ?? null;
}

/** Meanwhile another connection sends a command every five milliseconds, as servers do that have other things to do. */
async function measured(work: () => Promise<unknown>) {
  const before = await usage();
  const startedAt = performance.now();
  const waits: number[] = [];
  const over = new AbortController();
  const pings = (async () => {
    while (!over.signal.aborted) {
      const at = performance.now();
      await other.client.ping().catch(() => undefined);
      waits.push(performance.now() - at);
      await wait(5);
    }
  })();
  await work();
  over.abort();
  const ms = performance.now() - startedAt;
  await pings;
  const after = await usage();
  waits.sort((one, two) => one - two);
  return {
    scripts: after.scripts - before.scripts,
    'ms until all are published': Math.round(ms),
    'ms of Redis': Math.round(after.redisMs - before.redisMs),
    'ms of Node': Math.round(after.nodeMs - before.nodeMs),
    'p99 wait of others, ms': rounded(waits[Math.floor(waits.length * 0.99)] ?? 0),
    'longest, ms': rounded(waits.at(-1) ?? 0),
  };
}

async function usage() {
  const info = `${await connection.client.info('commandstats')}\n${await connection.client.info('cpu')}`;
  const field = (pattern: RegExp) => Number(pattern.exec(info)?.[1] ?? 0);
  const { user, system } = process.cpuUsage();
  return {
    scripts: field(/cmdstat_eval:calls=(\d+)/),
    redisMs: 1000 * (field(/used_cpu_user:([\d.]+)/) + field(/used_cpu_sys:([\d.]+)/)),
    nodeMs: (user + system) / 1000,
  };
}

/** Processor time of this process and of Redis. */
async function perId(
  together: number,
  lookUp: (some: string[]) => Promise<unknown>,
  servers: readonly number[],
) {
  const turns = Math.ceil(LOOKED_UP / together);
  const micros = async () =>
    (await usage()).nodeMs * 1000 + servers.reduce((sum, pid) => sum + cpuMicros(pid), 0);
  const before = await micros();
  for (let turn = 0; turn < turns; turn++) {
    const start = (turn * together) % (ids.length - together);
    await lookUp(ids.slice(start, start + together));
  }
  return rounded(((await micros()) - before) / turns / together);
}

/** Linux counts processor time in hundredths of a second. */
function cpuMicros(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}
