import { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import type { Logger } from '../logger.ts';
import type { NodeBus } from './node-bus.ts';
import type { RedisConnection, RedisSubscriber } from './redis-connection.ts';

/** Each node renews its lease every second; a node whose lease of three seconds has ended is gone. */
const BEAT_MS = 1000;
const LEASE_MS = 3000;
/** After a loss of Redis, other nodes may need this long to register again. */
const QUIET_MS = 2 * LEASE_MS;
/** One frame holds what one turn of the event loop has for one node, cut at about this size. */
const FRAME_CHARS = 500_000;

const NODES = 'muster:nodes';
const EVERYBODY = 'muster:to-all';
const channelOf = (nodeId: string) => `muster:to:${nodeId}`;

const Frame = z.object({
  from: z.string(),
  /** The sender has gone, on purpose. */
  left: z.literal(true).optional(),
  messages: z.array(z.unknown()),
});

// By the clock of Redis, which all nodes share. Returns whether we were known, the live nodes, and in how many ms the
// first lease ends that is not renewed.
const BEAT = `
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
  local isNew = redis.call('ZADD', KEYS[1], now, ARGV[1])
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  return { isNew, redis.call('ZRANGE', KEYS[1], 0, -1), oldest[2] + ARGV[2] - now }`;

const ALIVE = `
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
  return at and tonumber(at) > now - tonumber(ARGV[2]) and 1 or 0`;

export class NodeIdTakenError extends Error {
  constructor(nodeId: string) {
    super(`NODE_ID ${nodeId} belongs to another server that is running. Give each server one of its own.`);
    this.name = 'NodeIdTakenError';
  }
}

interface Parcel {
  messages: unknown[];
  settle: { resolve: (delivered: boolean) => void; reject: (error: unknown) => void }[];
}

/**
 * Nodes over Redis: a channel for each node and one for all. What one turn of the event loop has for a node goes in one
 * publish. Nothing that comes in can throw: a frame that is not one is counted and dropped.
 */
export class RedisNodeBus<M> implements NodeBus<M> {
  readonly nodeId: string;
  readonly #redis: RedisConnection;
  readonly #subscriber: RedisSubscriber;
  readonly #log: Logger;
  readonly #receivers: ((from: string, message: M) => void)[] = [];
  readonly #lostHandlers: ((nodeId: string) => void)[] = [];
  readonly #returnHandlers: (() => void)[] = [];
  readonly #parcels = new Map<string, Parcel>();
  #alive: ReadonlySet<string>;
  readonly #gone = new Set<string>();
  #beatTimer: Timer | undefined;
  #extraBeat: Timer | undefined;
  #isAway = true;
  #quietUntil = 0;
  #refused = 0;
  #closed = false;

  private constructor(parts: {
    nodeId: string;
    redis: RedisConnection;
    subscriber: RedisSubscriber;
    log: Logger;
  }) {
    this.nodeId = parts.nodeId;
    this.#redis = parts.redis;
    this.#subscriber = parts.subscriber;
    this.#log = parts.log;
    this.#alive = new Set([parts.nodeId]);
  }

  /**
   * Joins the cluster. If Redis is away, the node joins when it returns. Throws `NodeIdTakenError`.
   */
  static async join<M>(parts: {
    nodeId: string;
    redis: RedisConnection;
    subscriber: RedisSubscriber;
    log: Logger;
  }): Promise<RedisNodeBus<M>> {
    const bus = new RedisNodeBus<M>(parts);
    await bus.#assertOwnId();
    bus.#listen();
    await bus.#beat();
    bus.#beatTimer = clock.setInterval(() => void bus.#beat(), BEAT_MS);
    bus.#beatTimer.unref();
    return bus;
  }

  /** The live nodes including this one; `undefined` while there may be others that have not registered again yet. */
  get nodes(): ReadonlySet<string> | undefined {
    return this.#isAway || clock.monotonic() < this.#quietUntil ? undefined : this.#alive;
  }
  /** Frames that could not be read. */
  get refused(): number {
    return this.#refused;
  }

  /** Whether a node that was live is no longer. A node that has just joined may be unknown, but it is not gone. */
  isGone(nodeId: string): boolean {
    return this.#gone.has(nodeId);
  }

  onMessage(handler: (from: string, message: M) => void): void {
    this.#receivers.push(handler);
  }
  onNodeLost(handler: (nodeId: string) => void): void {
    this.#lostHandlers.push(handler);
  }
  /** Called when Redis is back, or has lost this node's lease: everything stored there has to be stored again. */
  onReturn(handler: () => void): void {
    this.#returnHandlers.push(handler);
  }

  /** Storing everything again has failed; `onReturn` is called once more with the next beat. */
  returnAgain(): void {
    this.#isAway = true;
  }

  send(to: string, message: M): Promise<boolean> {
    return this.#post(channelOf(to), message);
  }

  async broadcast(message: M): Promise<void> {
    await this.#post(EVERYBODY, message);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clock.clear(this.#beatTimer);
    clock.clear(this.#extraBeat);
    const { client } = this.#redis;
    const farewell = JSON.stringify({ from: this.nodeId, left: true, messages: [] });
    // Redis may be away: then the others find out by themselves.
    await Promise.allSettled([client.zrem(NODES, this.nodeId), this.#redis.publish(EVERYBODY, farewell)]);
  }

  async #assertOwnId(): Promise<void> {
    const deadline = clock.monotonic() + LEASE_MS + BEAT_MS;
    const isTaken = () =>
      this.#redis.client.eval(ALIVE, 1, NODES, this.nodeId, LEASE_MS).then(
        (answer) => answer === 1,
        () => false,
      );
    // A server that was killed a moment ago may come back under its name: its lease ends soon.
    while (await isTaken()) {
      if (clock.monotonic() > deadline) throw new NodeIdTakenError(this.nodeId);
      await clock.sleep(200);
    }
  }

  #listen(): void {
    // Whatever was written last may be missing in the Redis that answers next: a replica that took over, or one that
    // has started again from a snapshot. This node's lease may be in it, so its absence is no sign.
    this.#redis.onChange((isWhole) => {
      if (!isWhole) this.returnAgain();
    });
    this.#subscriber.onMessage((text) => this.#receive(text));
    this.#subscriber.onMissed(() => this.returnAgain());
    this.#subscribe();
  }

  /** Again with each beat: a connection that only listens does not notice by itself that its peer is gone. */
  #subscribe(): void {
    this.#subscriber.listen([channelOf(this.nodeId), EVERYBODY]);
  }

  #post(channel: string, message: M): Promise<boolean> {
    return new Promise((resolve, reject) => {
      let parcel = this.#parcels.get(channel);
      if (parcel === undefined) {
        parcel = { messages: [], settle: [] };
        this.#parcels.set(channel, parcel);
        setImmediate(() => this.#dispatch(channel));
      }
      parcel.messages.push(message);
      parcel.settle.push({ resolve, reject });
    });
  }

  #dispatch(channel: string): void {
    const parcel = this.#parcels.get(channel);
    this.#parcels.delete(channel);
    if (parcel === undefined) return;
    let texts: string[] = [];
    let settle: Parcel['settle'] = [];
    let chars = 0;
    const publish = () => {
      const those = settle;
      // Each message was printed once already, to know its size.
      const frame = `{"from":${JSON.stringify(this.nodeId)},"messages":[${texts.join(',')}]}`;
      this.#redis.publish(channel, frame).then(
        (receivers) => {
          for (const { resolve } of those) resolve(receivers > 0);
        },
        (error: unknown) => {
          for (const { reject } of those) reject(error);
        },
      );
      texts = [];
      settle = [];
      chars = 0;
    };
    for (const [at, message] of parcel.messages.entries()) {
      const text = textOf(message);
      if (chars > 0 && chars + text.length > FRAME_CHARS) publish();
      texts.push(text);
      chars += text.length;
      const waiting = parcel.settle[at];
      if (waiting !== undefined) settle.push(waiting);
    }
    publish();
  }

  #receive(text: string): void {
    const frame = parseFrame(text);
    if (frame === undefined) {
      this.#refused += 1;
      // The first and then every thousandth, so that a faulty sender cannot fill the log.
      if (this.#refused % 1000 === 1) this.#log.warn({ refused: this.#refused }, 'cluster.frame_refused');
      return;
    }
    if (frame.from === this.nodeId) return;
    if (frame.left === true) return this.#left(frame.from);
    this.#gone.delete(frame.from);
    for (const message of frame.messages) {
      for (const receive of this.#receivers) {
        try {
          receive(frame.from, message as M);
        } catch (error) {
          this.#log.error({ err: error, from: frame.from }, 'cluster.message_failed');
        }
      }
    }
  }

  #left(nodeId: string): void {
    if (!this.#alive.has(nodeId)) return;
    this.#alive = new Set([...this.#alive].filter((known) => known !== nodeId));
    this.#tellLost(nodeId);
  }

  async #beat(): Promise<void> {
    if (this.#closed) return;
    this.#subscribe();
    let isNew: number;
    let there: string[];
    let leaseEndsMs: number;
    try {
      [isNew, there, leaseEndsMs] = (await this.#redis.client.eval(
        BEAT,
        1,
        NODES,
        this.nodeId,
        LEASE_MS,
      )) as [number, string[], number];
    } catch {
      this.#isAway = true;
      return;
    }
    // Requests that wait for a node that is gone should not have to wait for the next beat as well.
    if (leaseEndsMs < BEAT_MS) this.#beatAfter(leaseEndsMs);
    // In a Redis Cluster the lease may be at a server that is there while another one is not.
    const isPartlyAway = !this.#redis.isWhole();
    const hasReturned = this.#isAway || isNew === 1;
    this.#isAway = isPartlyAway;
    if (hasReturned && !isPartlyAway) {
      this.#quietUntil = clock.monotonic() + QUIET_MS;
      for (const handler of this.#returnHandlers) handler();
    }
    const now = new Set([...there, this.nodeId]);
    const lost = [...this.#alive].filter((nodeId) => !now.has(nodeId));
    if (lost.length > 0 && (isPartlyAway || clock.monotonic() < this.#quietUntil)) {
      // That we did not hear of them may be our own doing.
      for (const nodeId of lost) now.add(nodeId);
      this.#alive = now;
      return;
    }
    this.#alive = now;
    for (const nodeId of now) this.#gone.delete(nodeId);
    for (const nodeId of lost) this.#tellLost(nodeId);
  }

  #beatAfter(ms: number): void {
    clock.clear(this.#extraBeat);
    this.#extraBeat = clock.setTimeout(() => void this.#beat(), ms);
    this.#extraBeat.unref();
  }

  #tellLost(nodeId: string): void {
    this.#gone.add(nodeId);
    this.#log.warn({ lostNodeId: nodeId }, 'cluster.node_lost');
    for (const handler of this.#lostHandlers) handler(nodeId);
  }
}

/** The JSON of messages, so that one that goes to several nodes is printed once. */
const printed = new WeakMap<object, string>();

function textOf(message: unknown): string {
  if (typeof message !== 'object' || message === null) return JSON.stringify(message);
  let text = printed.get(message);
  if (text === undefined) {
    text = JSON.stringify(message);
    printed.set(message, text);
  }
  return text;
}

function parseFrame(text: string): z.infer<typeof Frame> | undefined {
  try {
    return Frame.parse(JSON.parse(text));
  } catch {
    // Whatever was published on our channels, it was not one of us.
    return undefined;
  }
}
