import { crc32 } from 'node:zlib';
import { clock, type Timer } from '../../clock.ts';
import type { Logger } from '../logger.ts';
import type { RedisConnection } from './redis-connection.ts';

/** The holder of a claim, and its epoch, which is greater for a newer claim. */
export interface Claim {
  nodeId: string;
  epoch: number;
}

/**
 * Claims are spread over so many hashes, each with an epoch of its own, so that a Redis Cluster can spread them over its
 * servers. The epochs of two keys say nothing about each other. All servers have to have the same number: one with
 * another number does not find the claims of these (docs/operators-guide.md, "Upgrade and roll back").
 */
export const BUCKETS = 256;

/** The same for ever and in every program: CRC-32 of the key's UTF-8. */
export const bucketOf = (id: string): number => crc32(id) % BUCKETS;

// Epochs only grow, even if Redis has lost what it had: each node names the least epoch that it expects.
const CLAIM = `
  local epoch = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') + 1, tonumber(ARGV[3]))
  redis.call('SET', KEYS[2], string.format('%.0f', epoch))
  local before = redis.call('HGET', KEYS[1], ARGV[1])
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', epoch) .. ':' .. ARGV[2])
  return { string.format('%.0f', epoch), before }`;

const RELEASE = `
  local held = redis.call('HGET', KEYS[1], ARGV[1])
  if held and string.sub(held, 1, string.len(ARGV[2]) + 1) == ARGV[2] .. ':' then
    redis.call('HDEL', KEYS[1], ARGV[1])
  end
  return 0`;

// Claims again what was claimed while Redis was away: ids and epochs in turn, after the node. Returns what was stored
// instead, be it newer or older, with its place among the ids. An equal claim stays: the one that is made in its place
// then returns its node, which has to hear of that.
const RECLAIM = `
  local ids = {}
  for at = 2, #ARGV, 2 do ids[#ids + 1] = ARGV[at] end
  local held = redis.call('HMGET', KEYS[1], unpack(ids))
  local greatest = redis.call('GET', KEYS[2]) or '0'
  local before, writes, others = greatest, {}, {}
  for at, id in ipairs(ids) do
    local epoch = ARGV[2 * at + 1]
    local own = epoch .. ':' .. ARGV[1]
    local claim = held[at]
    if claim ~= own then
      if claim then
        others[#others + 1] = at - 1
        others[#others + 1] = claim
      end
      if not claim or (tonumber(string.match(claim, '^%d+')) or 0) < tonumber(epoch) then
        writes[#writes + 1] = id
        writes[#writes + 1] = own
      end
    end
    if tonumber(epoch) > tonumber(greatest) then greatest = epoch end
  end
  if #writes > 0 then redis.call('HSET', KEYS[1], unpack(writes)) end
  if greatest ~= before then redis.call('SET', KEYS[2], greatest) end
  return others`;

// One command for all buckets, where no cluster forbids it: a command for each costs four times as much.
const LOOK_UP = `
  local held = {}
  for at, key in ipairs(KEYS) do held[at] = redis.call('HGET', key, ARGV[at]) end
  return held`;

/** Ids in one command: Redis does nothing else while it carries one out. */
const AT_ONCE = 500;
/** After a loss all nodes announce at once, each of them spread over this time. */
const SPREAD_MS = 2000;
const RETRY_MS = 1000;

/** Claims that are looked up together, and what is held of each, in the same order. */
interface Lookups {
  ids: string[];
  answers: Promise<(string | null)[]>;
}

/**
 * Claims that all nodes see: hashes with a field for each claimed key. They do not expire; they count only while their
 * node is live. While Redis is away, a node claims by its own clock and publishes its claims when Redis is back.
 */
export class RedisClaims {
  readonly #redis: RedisConnection;
  readonly #name: string;
  readonly #nodeId: string;
  readonly #isGone: (nodeId: string) => boolean;
  readonly #onOutdated: (id: string, epoch: number) => void;
  readonly #onReplaced: (nodeId: string, id: string, epoch: number) => void;
  readonly #onTied: (id: string) => void;
  readonly #onUnanswered: (id: string, epoch: number) => void;
  readonly #log: Logger;
  readonly #own: Map<string, number>[] = Array.from({ length: BUCKETS }, () => new Map<string, number>());
  /** Buckets whose claims Redis may not have. */
  readonly #untold = new Set<number>();
  readonly #lookups = new Map<number, Lookups>();
  #turn: Promise<void> | undefined;
  #isTelling = false;
  #timer: Timer | undefined;
  #isClosed = false;
  #lastEpoch = 0;

  constructor(parts: {
    redis: RedisConnection;
    /** Names the kind of keys that are claimed. */
    name: string;
    nodeId: string;
    isGone: (nodeId: string) => boolean;
    /** Another node has claimed the key since, while Redis was away. */
    onOutdated: (id: string, epoch: number) => void;
    /** Called if both nodes claimed the key while Redis was away, this one later, and the other does not know that. */
    onReplaced: (nodeId: string, id: string, epoch: number) => void;
    /**
     * Called if both nodes claimed the key under the same epoch while Redis was away, or if Redis has carried out a claim
     * of this node that it took for failed, under a greater epoch: the key has to be claimed again.
     */
    onTied: (id: string) => void;
    /** Called if it is not known which node had the key before, because Redis carried out the claim and did not answer. */
    onUnanswered: (id: string, epoch: number) => void;
    log: Logger;
  }) {
    this.#redis = parts.redis;
    this.#name = parts.name;
    this.#nodeId = parts.nodeId;
    this.#isGone = parts.isGone;
    this.#onOutdated = parts.onOutdated;
    this.#onReplaced = parts.onReplaced;
    this.#onTied = parts.onTied;
    this.#onUnanswered = parts.onUnanswered;
    this.#log = parts.log;
  }

  async claim(id: string, nodeId: string): Promise<{ epoch: number; previous: Claim | undefined }> {
    const bucket = bucketOf(id);
    let claimed: { epoch: number; previous: Claim | undefined };
    try {
      const [epoch, before] = (await this.#redis.client.eval(
        CLAIM,
        2,
        this.#claimsKey(bucket),
        this.#epochKey(bucket),
        id,
        nodeId,
        this.#leastEpoch(),
      )) as [string, string | null];
      claimed = { epoch: Number(epoch), previous: before === null ? undefined : parse(before) };
    } catch {
      claimed = { epoch: this.#leastEpoch(), previous: undefined };
      this.#untold.add(bucket);
      this.#tellAfter(RETRY_MS);
    }
    this.#lastEpoch = Math.max(this.#lastEpoch, claimed.epoch);
    this.#ownOf(bucket).set(id, claimed.epoch);
    return claimed;
  }

  /** Every claim from now on gets a greater epoch than this one, which was stored by whichever node. */
  epochSeen(epoch: number): void {
    this.#lastEpoch = Math.max(this.#lastEpoch, epoch);
  }

  /** Mostly the clock, so that of two nodes that claim without Redis the later one wins; never what was there before. */
  #leastEpoch(): number {
    return Math.max(this.#lastEpoch + 1, clock.now());
  }

  /** While Redis is away it is only forgotten here, and so not claimed again. */
  async release(id: string, epoch: number): Promise<void> {
    const bucket = bucketOf(id);
    const own = this.#ownOf(bucket);
    if (own.get(id) === epoch) own.delete(id);
    await this.#redis.client.eval(RELEASE, 1, this.#claimsKey(bucket), id, epoch).catch(() => undefined);
  }

  /** Rejects while Redis is away, because the holder is not known then. */
  async find(id: string): Promise<Claim | undefined> {
    const held = await this.#lookUp(id);
    const claim = held === null ? undefined : parse(held);
    return claim === undefined || this.#isGone(claim.nodeId) ? undefined : claim;
  }

  /**
   * The look-ups of one turn of the event loop go together, because each command has its cost here and in Redis: in one
   * command for each bucket, or all in one if no cluster refuses it.
   */
  async #lookUp(id: string): Promise<string | null> {
    const together = this.#redis.isSharded ? bucketOf(id) : 0;
    let lookups = this.#lookups.get(together);
    if (lookups === undefined || lookups.ids.length >= AT_ONCE) {
      lookups = this.#gather(together);
      this.#lookups.set(together, lookups);
    }
    const at = lookups.ids.push(id) - 1;
    return (await lookups.answers)[at] ?? null;
  }

  #gather(bucket: number): Lookups {
    const ids: string[] = [];
    this.#turn ??= new Promise<void>((turn) => setImmediate(turn)).then(() => {
      this.#turn = undefined;
      this.#lookups.clear();
    });
    const answers = this.#turn.then(async () => {
      const { client, isSharded } = this.#redis;
      if (isSharded) return client.hmget(this.#claimsKey(bucket), ...ids);
      const keys = ids.map((id) => this.#claimsKey(bucketOf(id)));
      const [key = '', ...more] = keys;
      if (more.length === 0) return client.hmget(key, ...ids);
      return (await client.eval(LOOK_UP, ids.length, ...keys, ...ids)) as (string | null)[];
    });
    return { ids, answers };
  }

  /** Publishes all claims of this node again, as soon as Redis takes them. */
  announce(): void {
    for (const [bucket, own] of this.#own.entries()) if (own.size > 0) this.#untold.add(bucket);
    this.#tellAfter(0);
  }

  close(): void {
    this.#isClosed = true;
    clock.clear(this.#timer);
  }

  #tellAfter(ms: number): void {
    clock.clear(this.#timer);
    if (this.#isClosed) return;
    this.#timer = clock.setTimeout(() => void this.#tell(), ms);
    this.#timer.unref();
  }

  /**
   * One command at a time, with pauses: fifty nodes that return together leave room for others. In any order, so that
   * they do not come to the same server of a cluster all at once.
   */
  async #tell(): Promise<void> {
    // When Redis is back, `announce` marks all buckets again.
    if (this.#isTelling || !this.#redis.isWhole()) return;
    this.#isTelling = true;
    let claims = 0;
    let failure: unknown;
    for (const bucket of inAnyOrder([...this.#untold])) {
      if (this.#isClosed || !this.#redis.isWhole()) break;
      // Before it is told, so that a claim that fails meanwhile marks it again.
      this.#untold.delete(bucket);
      try {
        claims += await this.#tellBucket(bucket);
      } catch (error) {
        failure ??= error;
        this.#untold.add(bucket);
      }
      await clock.sleep(SPREAD_MS / BUCKETS, { unref: true });
    }
    this.#isTelling = false;
    if (claims > 0) this.#log.info({ claims }, 'cluster.claims_told_again');
    if (failure !== undefined) this.#log.warn({ err: failure }, 'cluster.claims_not_told');
    if (this.#untold.size > 0) this.#tellAfter(RETRY_MS);
  }

  async #tellBucket(bucket: number): Promise<number> {
    const own = this.#ownOf(bucket);
    const ids = [...own.keys()];
    let claims = 0;
    for (let start = 0; start < ids.length; start += AT_ONCE) {
      // What was released since is not claimed again, and what was claimed since is told with its new epoch.
      const those = ids.slice(start, start + AT_ONCE).flatMap((id) => {
        const epoch = own.get(id);
        return epoch === undefined ? [] : [{ id, epoch }];
      });
      if (those.length > 0) await this.#reclaim(bucket, those);
      claims += those.length;
    }
    return claims;
  }

  async #reclaim(bucket: number, those: readonly { id: string; epoch: number }[]): Promise<void> {
    const others = (await this.#redis.client.eval(
      RECLAIM,
      2,
      this.#claimsKey(bucket),
      this.#epochKey(bucket),
      this.#nodeId,
      ...those.flatMap(({ id, epoch }) => [id, epoch]),
    )) as (number | string)[];
    const own = this.#ownOf(bucket);
    // A server that takes a bucket over from another one may have seen the release first.
    const ended = those.filter(({ id }) => !own.has(id));
    await Promise.all(ended.map(({ id, epoch }) => this.release(id, epoch)));
    for (let at = 0; at < others.length; at += 2) {
      const { id, epoch } = those[Number(others[at])] ?? {};
      const claim = parse(String(others[at + 1]));
      if (id === undefined || epoch === undefined || claim === undefined) continue;
      if (own.get(id) !== epoch) continue;
      if (claim.nodeId === this.#nodeId) {
        this.#onUnanswered(id, Math.max(claim.epoch, epoch));
        // Nobody could release a claim under an epoch that is not known.
        if (claim.epoch > epoch) this.#onTied(id);
      } else if (claim.epoch > epoch) this.#onOutdated(id, claim.epoch);
      else if (claim.epoch === epoch) this.#onTied(id);
      else this.#onReplaced(claim.nodeId, id, epoch);
    }
  }

  // A Redis Cluster places a key by what is in braces: claims and epoch of a bucket are at the same server.
  #claimsKey(bucket: number): string {
    return `muster:{${this.#name}:${bucket}}:claims`;
  }
  #epochKey(bucket: number): string {
    return `muster:{${this.#name}:${bucket}}:epoch`;
  }

  #ownOf(bucket: number): Map<string, number> {
    const own = this.#own[bucket];
    if (own === undefined) throw new Error(`There is no bucket ${bucket}.`);
    return own;
  }
}

function inAnyOrder<T>(items: T[]): T[] {
  for (let at = items.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [items[at], items[other]] = [items[other] as T, items[at] as T];
  }
  return items;
}

function parse(held: string): Claim | undefined {
  const [, epoch, nodeId] = /^(\d+):(.+)$/.exec(held) ?? [];
  return epoch === undefined || nodeId === undefined ? undefined : { epoch: Number(epoch), nodeId };
}
