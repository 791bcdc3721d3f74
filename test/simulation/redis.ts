import { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';
import type { RedisConnection, RedisSubscriber } from '../../src/platform/cluster/redis-connection.ts';
import { type Reply, script } from './lua.ts';
import { Pipe } from './pipe.ts';
import type { Process, World } from './world.ts';

/** A command that has no answer within this time fails. */
const COMMAND_MS = 500;
/** A connection that owes an answer for so long is closed. */
const SILENCE_MS = 1000;
/** How long Redis takes a connection for open whose end it did not hear. */
const HALF_OPEN_MS = 30_000;

type Link = 'up' | 'cut' | 'silent';

/** The connections of one server as Redis has them. */
interface Session {
  isClosed: boolean;
  channels: Set<string>;
  deliver(channel: string, text: string): void;
}

/** A Redis with the commands that our servers use. It runs their own scripts. */
export class SimulatedRedis {
  readonly #world: World;
  readonly #sessions = new Set<Session>();
  readonly #links = new Map<string, Link>();
  readonly #clients = new Set<Client>();
  #texts = new Map<string, string>();
  #hashes = new Map<string, Map<string, string>>();
  #sorted = new Map<string, Map<string, number>>();
  isUp = true;
  /** How long each way takes beyond the usual, at most. */
  slowMs = 0;
  /** A server whose commands are answered late, by this at most. Messages of other servers reach it in time. */
  late: { nodeId: string; ms: number } | undefined;

  constructor(world: World) {
    this.#world = world;
  }

  /** The way between a server and Redis. */
  linkOf(name: string): Link {
    return this.#links.get(name) ?? 'up';
  }

  setLink(name: string, link: Link): void {
    this.#links.set(name, link);
    if (link === 'cut') for (const client of this.#clients) if (client.owner.name === name) client.lost();
  }

  /** It dies, with or without what it holds. */
  stop({ losesData }: { losesData: boolean }): void {
    this.isUp = false;
    for (const session of this.#sessions) session.isClosed = true;
    this.#sessions.clear();
    if (losesData) {
      this.#texts = new Map();
      this.#hashes = new Map();
      this.#sorted = new Map();
    }
    for (const client of this.#clients) if (this.linkOf(client.owner.name) === 'up') client.lost();
  }

  start(): void {
    this.isUp = true;
  }

  /** As `openRedis`: resolves after the first attempt. */
  async open(owner: Process): Promise<RedisConnection> {
    const client = await this.#connected(owner);
    return {
      client: client as unknown as Redis,
      isSharded: false,
      isUp: () =>
        client.ping().then(
          () => true,
          () => false,
        ),
      isWhole: () => client.status === 'ready',
      onChange(handler) {
        let isWhole = client.status === 'ready';
        const become = (now: boolean) => {
          if (now !== isWhole) handler((isWhole = now));
        };
        client.on('ready', () => become(true));
        client.on('close', () => become(false));
      },
      publish: async (channel, text) => Number(await client.publish(channel, text)),
      openSubscriber: async () => subscriberOf(await this.#connected(owner)),
      close: async () => client.end(),
    };
  }

  async #connected(owner: Process): Promise<Client> {
    const client = new Client(this.#world, this, owner);
    this.#clients.add(client);
    await new Promise<void>((resolve) => {
      client.once('ready', () => resolve());
      client.once('close', () => resolve());
    });
    return client;
  }

  /** @param isHeard  whether Redis hears that, as it does unless the machine loses its power */
  processDied(owner: Process, isHeard = true): void {
    for (const client of this.#clients) if (client.owner === owner) client.end(isHeard);
  }

  beginSession(deliver: Session['deliver']): Session {
    const session: Session = { isClosed: false, channels: new Set(), deliver };
    this.#sessions.add(session);
    return session;
  }

  /** @param isHeard  whether Redis hears that the connection ends */
  endSession(session: Session, isHeard: boolean): void {
    if (isHeard) this.#drop(session);
    else this.#world.after(HALF_OPEN_MS, this.#world.itself, () => this.#drop(session));
  }

  forget(client: Client): void {
    this.#clients.delete(client);
  }

  /** Whether somebody listens on a channel, be it on a connection whose other end is gone. */
  hasListener(channel: string): boolean {
    return [...this.#sessions].some(({ channels }) => channels.has(channel));
  }

  #drop(session: Session): void {
    session.isClosed = true;
    this.#sessions.delete(session);
  }

  execute(session: Session, [name = '', ...args]: string[]): Reply {
    if (name === 'subscribe') {
      for (const channel of args) session.channels.add(channel);
      return session.channels.size;
    }
    if (name === 'eval') {
      const [text = '', count = '0', ...values] = args;
      const keys = values.slice(0, Number(count));
      return script(text)(keys, values.slice(Number(count)), (call) => this.#command(call));
    }
    return this.#command([name, ...args]);
  }

  #command([name = '', key = '', ...args]: string[]): Reply {
    const [one = '', two = ''] = args;
    switch (name.toUpperCase()) {
      case 'PING':
        return 'PONG';
      case 'GET':
        return this.#texts.get(key) ?? null;
      case 'SET':
        this.#texts.set(key, one);
        return 'OK';
      case 'HGET':
        return this.#hashes.get(key)?.get(one) ?? null;
      case 'HMGET':
        return args.map((field) => this.#hashes.get(key)?.get(field) ?? null);
      case 'HSET': {
        const hash = within(this.#hashes, key);
        for (let at = 0; at < args.length; at += 2) hash.set(args[at] ?? '', args[at + 1] ?? '');
        return args.length / 2;
      }
      case 'HDEL':
        return this.#hashes.get(key)?.delete(one) === true ? 1 : 0;
      case 'ZADD': {
        const sorted = within(this.#sorted, key);
        const isNew = !sorted.has(two);
        sorted.set(two, Number(one));
        return isNew ? 1 : 0;
      }
      case 'ZREM':
        return this.#sorted.get(key)?.delete(one) === true ? 1 : 0;
      case 'ZSCORE': {
        const score = this.#sorted.get(key)?.get(one);
        return score === undefined ? null : String(score);
      }
      case 'ZRANGE': {
        const [start, end] = [Number(one), Number(two)];
        const members = [...(this.#sorted.get(key) ?? [])].sort(
          ([left, low], [right, high]) => low - high || (left < right ? -1 : 1),
        );
        const range = members.slice(start, end === -1 ? undefined : end + 1);
        return range.flatMap(([member, score]) =>
          args[2] === 'WITHSCORES' ? [member, String(score)] : [member],
        );
      }
      case 'ZREMRANGEBYSCORE': {
        const sorted = this.#sorted.get(key);
        for (const [member, score] of sorted ?? []) if (score <= Number(two)) sorted?.delete(member);
        return 0;
      }
      case 'TIME': {
        const now = this.#world.wallTime();
        return [String(Math.floor(now / 1000)), String((now % 1000) * 1000)];
      }
      case 'PUBLISH': {
        const receivers = [...this.#sessions].filter(({ channels }) => channels.has(key));
        for (const receiver of receivers) receiver.deliver(key, one);
        return receivers.length;
      }
      default:
        throw new Error(`The simulated Redis does not know ${name}.`);
    }
  }
}

function within<V>(all: Map<string, Map<string, V>>, key: string): Map<string, V> {
  let found = all.get(key);
  if (found === undefined) {
    found = new Map();
    all.set(key, found);
  }
  return found;
}

interface Owed {
  sentAt: number;
  isLate: boolean;
  resolve: (reply: Reply) => void;
  reject: (error: Error) => void;
}

/** A connection as the client of `ioredis` has it, with the options of `openRedis`. */
class Client extends EventEmitter {
  readonly owner: Process;
  status: 'connecting' | 'ready' | 'close' | 'end' = 'connecting';
  readonly #world: World;
  readonly #redis: SimulatedRedis;
  #session: Session | undefined;
  #up: Pipe | undefined;
  #down: Pipe | undefined;
  #owed = new Set<Owed>();
  #isWatching = false;

  constructor(world: World, redis: SimulatedRedis, owner: Process) {
    super();
    this.#world = world;
    this.#redis = redis;
    this.owner = owner;
    this.#connectIn(this.#random().between(0.2, 3));
  }

  eval(text: string, keys: number, ...values: (string | number)[]): Promise<Reply> {
    return this.#send(['eval', text, String(keys), ...values.map(String)]);
  }
  hmget(key: string, ...fields: string[]): Promise<Reply> {
    return this.#send(['hmget', key, ...fields]);
  }
  zrem(key: string, member: string): Promise<Reply> {
    return this.#send(['zrem', key, member]);
  }
  publish(channel: string, text: string): Promise<Reply> {
    return this.#send(['publish', channel, text]);
  }
  subscribe(...channels: string[]): Promise<Reply> {
    return this.#send(['subscribe', ...channels]);
  }
  ping(): Promise<Reply> {
    return this.#send(['ping']);
  }

  /** The connection breaks, which this end hears. */
  lost(): void {
    if (this.status === 'end') return;
    this.#world.after(this.#random().between(0.2, 5), this.owner, () => this.#close());
  }

  end(isHeard = true): void {
    this.status = 'end';
    this.#endSession(isHeard);
    this.#redis.forget(this);
  }

  #random() {
    return this.#world.random('redis');
  }

  #link(): Link {
    return this.#redis.linkOf(this.owner.name);
  }

  #connectIn(ms: number): void {
    this.#world.after(ms, this.owner, () => {
      if (this.status === 'end' || this.status === 'ready') return;
      if (!this.#redis.isUp || this.#link() !== 'up') return this.#close();
      this.#begin();
    });
  }

  #begin(): void {
    const random = this.#random();
    const isSilent = () => this.#link() !== 'up';
    // Most answers are quick; a busy machine takes longer.
    const latency = () =>
      (random.chance(0.02) ? random.between(5, 200) : random.between(0.2, 2)) +
      random.between(0, this.#redis.slowMs);
    const up = new Pipe({ world: this.#world, receiver: this.#world.itself, isSilent, latency });
    const answersIn = () => {
      const { late } = this.#redis;
      const isLate = late?.nodeId === this.owner.name && this.#session?.channels.size === 0;
      return latency() + (isLate ? random.between(0, late.ms) : 0);
    };
    const down = new Pipe({ world: this.#world, receiver: this.owner, isSilent, latency: answersIn });
    this.#session = this.#redis.beginSession((channel, text) => {
      down.send(() => {
        this.emit('message', channel, text);
      });
    });
    this.#up = up;
    this.#down = down;
    this.status = 'ready';
    this.emit('ready');
  }

  #send(command: string[]): Promise<Reply> {
    const session = this.#session;
    const [up, down] = [this.#up, this.#down];
    if (this.status !== 'ready' || session === undefined || up === undefined || down === undefined) {
      return Promise.reject(new Error('Connection is closed.'));
    }
    return new Promise((resolve, reject) => {
      const owed: Owed = { sentAt: this.#world.now, isLate: false, resolve, reject };
      this.#owed.add(owed);
      if (!this.#isWatching) this.#watch();
      up.send(() => {
        if (session.isClosed) return;
        const reply = this.#redis.execute(session, command);
        down.send(() => {
          this.#owed.delete(owed);
          resolve(reply);
        });
      });
    });
  }

  /** One timer for all that is owed, which mostly finds nothing: one for each command would fill the queue of events. */
  #watch(): void {
    let dueAt = Infinity;
    for (const { sentAt, isLate } of this.#owed) {
      dueAt = Math.min(dueAt, sentAt + (isLate ? SILENCE_MS : COMMAND_MS));
    }
    this.#isWatching = this.#owed.size > 0;
    if (!this.#isWatching) return;
    this.#world.after(dueAt - this.#world.now, this.owner, () => {
      for (const owed of this.#owed) {
        const waitedMs = Math.round(this.#world.now - owed.sentAt);
        if (waitedMs >= COMMAND_MS && !owed.isLate) {
          owed.isLate = true;
          owed.reject(new Error('Command timed out'));
        }
        if (waitedMs >= SILENCE_MS) this.#close();
      }
      this.#watch();
    });
  }

  #endSession(isHeard = true): void {
    this.#up?.close();
    this.#down?.close();
    if (this.#session !== undefined) {
      this.#redis.endSession(this.#session, isHeard && this.#link() !== 'silent');
    }
    this.#session = undefined;
  }

  #close(): void {
    if (this.status === 'end') return;
    this.status = 'close';
    this.#endSession();
    const owed = [...this.#owed];
    this.#owed = new Set();
    this.emit('close');
    for (const { reject } of owed) reject(new Error('Connection is closed.'));
    this.#connectIn(this.#random().between(25, 2000));
  }
}

/** As `openSubscriber` of `redis.ts`. */
function subscriberOf(client: Client): RedisSubscriber {
  let listening: readonly string[] = [];
  let hasListened = client.status === 'ready';
  const missedHandlers: (() => void)[] = [];
  const subscribe = () => {
    if (listening.length > 0) void client.subscribe(...listening).catch(() => 0);
  };
  client.on('ready', () => {
    subscribe();
    if (hasListened) for (const handler of missedHandlers) handler();
    hasListened = true;
  });
  return {
    listen(channels) {
      listening = channels;
      subscribe();
    },
    onMessage: (handler) => void client.on('message', (_channel: string, text: string) => handler(text)),
    onMissed: (handler) => void missedHandlers.push(handler),
    close: async () => client.end(),
  };
}
