import { clock } from '../../clock.ts';
import type { Logger } from '../logger.ts';
import type { RedisConnection } from './redis.ts';

/** The holder of a claim, and its epoch, which is greater for a newer claim. */
export interface Claim {
  nodeId: string;
  epoch: number;
}

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

// Claims again what was claimed while Redis was away; returns the claim that was stored, be it newer or older.
const RECLAIM = `
  local held = redis.call('HGET', KEYS[1], ARGV[1])
  if held and tonumber(string.match(held, '^%d+')) > tonumber(ARGV[2]) then return held end
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ':' .. ARGV[3])
  if tonumber(redis.call('GET', KEYS[2]) or '0') < tonumber(ARGV[2]) then redis.call('SET', KEYS[2], ARGV[2]) end
  return held`;

const AT_ONCE = 100;

/** Claims that are looked up together, and what is held of each, in the same order. */
interface Lookups {
  ids: string[];
  answers: Promise<(string | null)[]>;
}

/**
 * Claims that all nodes see: one hash with a field for each claimed key. They do not expire; they count only while their
 * node is live. While Redis is away, a node claims by its own clock and publishes its claims when Redis is back.
 */
export class RedisClaims {
  readonly #redis: RedisConnection;
  readonly #claimsKey: string;
  readonly #epochKey: string;
  readonly #nodeId: string;
  readonly #isGone: (nodeId: string) => boolean;
  readonly #onOutdated: (id: string, epoch: number) => void;
  readonly #onReplaced: (nodeId: string, id: string, epoch: number) => void;
  readonly #onUnpublished: () => void;
  readonly #log: Logger;
  readonly #own = new Map<string, number>();
  #lastEpoch = 0;
  #lookups: Lookups | undefined;

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
    /** A claim could not be published; `announce` publishes it. */
    onUnpublished: () => void;
    log: Logger;
  }) {
    this.#redis = parts.redis;
    this.#claimsKey = `muster:claims:${parts.name}`;
    this.#epochKey = `muster:epoch:${parts.name}`;
    this.#nodeId = parts.nodeId;
    this.#isGone = parts.isGone;
    this.#onOutdated = parts.onOutdated;
    this.#onReplaced = parts.onReplaced;
    this.#onUnpublished = parts.onUnpublished;
    this.#log = parts.log;
  }

  async claim(id: string, nodeId: string): Promise<{ epoch: number; previous: Claim | undefined }> {
    let claimed: { epoch: number; previous: Claim | undefined };
    try {
      const [epoch, before] = (await this.#redis.client.eval(
        CLAIM,
        2,
        this.#claimsKey,
        this.#epochKey,
        id,
        nodeId,
        this.#leastEpoch(),
      )) as [string, string | null];
      claimed = { epoch: Number(epoch), previous: before === null ? undefined : parse(before) };
    } catch {
      this.#onUnpublished();
      claimed = { epoch: this.#leastEpoch(), previous: undefined };
    }
    this.#lastEpoch = Math.max(this.#lastEpoch, claimed.epoch);
    this.#own.set(id, claimed.epoch);
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
    if (this.#own.get(id) === epoch) this.#own.delete(id);
    await this.#redis.client.eval(RELEASE, 1, this.#claimsKey, id, epoch).catch(() => undefined);
  }

  /** Rejects while Redis is away, because the holder is not known then. */
  async find(id: string): Promise<Claim | undefined> {
    const held = await this.#lookUp(id);
    const claim = held === null ? undefined : parse(held);
    return claim === undefined || this.#isGone(claim.nodeId) ? undefined : claim;
  }

  /** The look-ups of one turn of the event loop go in one command: each command has its cost here and in Redis. */
  async #lookUp(id: string): Promise<string | null> {
    this.#lookups ??= this.#gather();
    const { ids, answers } = this.#lookups;
    const at = ids.push(id) - 1;
    return (await answers)[at] ?? null;
  }

  #gather(): Lookups {
    const ids: string[] = [];
    const answers = new Promise<void>((turn) => setImmediate(turn)).then(() => {
      this.#lookups = undefined;
      return this.#redis.client.hmget(this.#claimsKey, ...ids);
    });
    return { ids, answers };
  }

  /** Publishes all claims of this node again. */
  async announce(): Promise<void> {
    const own = [...this.#own];
    for (let start = 0; start < own.length; start += AT_ONCE) {
      await Promise.all(
        own.slice(start, start + AT_ONCE).map(async ([id, epoch]) => {
          const held = (await this.#redis.client.eval(
            RECLAIM,
            2,
            this.#claimsKey,
            this.#epochKey,
            id,
            epoch,
            this.#nodeId,
          )) as string | null;
          const claim = held === null ? undefined : parse(held);
          if (claim === undefined || claim.nodeId === this.#nodeId) return;
          if (claim.epoch > epoch) this.#onOutdated(id, claim.epoch);
          else this.#onReplaced(claim.nodeId, id, epoch);
        }),
      );
    }
    if (own.length > 0) this.#log.info({ claims: own.length }, 'cluster.claims_told_again');
  }
}

function parse(held: string): Claim | undefined {
  const [, epoch, nodeId] = /^(\d+):(.+)$/.exec(held) ?? [];
  return epoch === undefined || nodeId === undefined ? undefined : { epoch: Number(epoch), nodeId };
}
