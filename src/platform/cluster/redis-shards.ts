import { Cluster, type ClusterOptions, Redis } from 'ioredis';
import { clock, type Timer } from '../../clock.ts';
import { describeRedis, type RedisClusterNodes } from '../../redis-url.ts';
import type { Logger } from '../logger.ts';
import {
  CONNECT_MS,
  CONNECTION,
  reasonOf,
  type RedisConnection,
  RedisLink,
  type RedisSubscriber,
  retryAfterMs,
} from './redis-connection.ts';

/** The client learns of a changed cluster from the servers that it asks. A server that it asks nothing tells nothing. */
const REFRESH_MS = 5000;
/** Stands for a master that is lost: a command that is given to it fails. */
const LOST_MASTER = new Redis({ lazyConnect: true });
LOST_MASTER.disconnect();

/** The time between two looks at a cluster in which a server is missing grows to 400 ms. */
const SHORT_ATTEMPTS = 3;

/**
 * A connection to a Redis Cluster, with one to each of its masters. It counts as lost as soon as one of them is, because
 * what was written there last may be gone with it, and as regained when each master answers and all slots are served.
 */
export async function openRedisCluster(place: RedisClusterNodes, log: Logger): Promise<RedisConnection> {
  const link = new RedisLink(describeRedis(place), log);
  const client = openClient(place);
  const masters = new Masters(client, link);
  await new Promise<void>((resolve) => {
    client.once('ready', resolve);
    client.once('close', resolve);
  });
  await masters.look();
  return {
    client,
    isSharded: true,
    isUp: () => allAnswer(client),
    isWhole: () => link.isWhole,
    onChange: (handler) => link.onChange(handler),
    // Sharded channels: the message goes to the server of the channel alone instead of to all servers of the cluster, and
    // the answer counts everybody who listens. A plain PUBLISH counts only those at the same server.
    publish: async (channel, text) => Number(await client.spublish(channel, text)),
    openSubscriber: async () => new ShardSubscriber(client, serverOptions(place)),
    async close() {
      link.closing();
      masters.close();
      await client.quit().catch(() => undefined);
      client.disconnect();
    },
  };
}

const serverOptions = ({ tls, username, password }: RedisClusterNodes) => ({
  ...CONNECTION,
  ...(username === undefined ? {} : { username }),
  ...(password === undefined ? {} : { password }),
  ...(tls ? { tls: {} } : {}),
});

type OpeningOptions = Pick<ClusterOptions, 'lazyConnect' | 'clusterRetryStrategy' | 'slotsRefreshTimeout'>;
type ServerOptions = ReturnType<typeof serverOptions>;

export function openClient(place: RedisClusterNodes, options: OpeningOptions = {}): Cluster {
  return new Cluster(place.nodes, {
    redisOptions: serverOptions(place),
    enableOfflineQueue: false,
    clusterRetryStrategy: retryAfterMs,
    // Commands that were sent to a server that is lost may have taken effect, and those of a cluster that is down are
    // answered as those of a Redis that is away: at once. MOVED and ASK were not carried out and are followed.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    // Otherwise the client gives what a lost master would answer to any server, and a replica answers what it has.
    scaleReads: ([master]: readonly (Redis | undefined)[]) => master ?? LOST_MASTER,
    slotsRefreshTimeout: CONNECT_MS,
    slotsRefreshInterval: REFRESH_MS,
    // A certificate is for the name of a server, and not for its address.
    ...(place.tls ? { dnsLookup: (host, callback) => callback(null, host) } : {}),
    ...options,
  });
}

/** Each server that holds keys answers, and there is one for each key. */
async function allAnswer(client: Cluster): Promise<boolean> {
  if (client.status !== 'ready') return false;
  const masters = new Map(client.nodes('master').map((master) => [nameOf(master), master]));
  // The client forgets a server when its connection is lost, and not which slots that server has.
  if (masters.size === 0 || !client.slots.every(([owner = '']) => masters.has(owner))) return false;
  try {
    const states = await Promise.all([...masters.values()].map((master) => master.cluster('INFO')));
    return states.every((state) => state.includes('cluster_state:ok'));
  } catch {
    return false;
  }
}

const nameOf = ({ options }: Redis) => `${options.host}:${options.port}`;

/** Notices that a master is lost or has been replaced, and when the cluster is whole again. */
class Masters {
  readonly #client: Cluster;
  readonly #link: RedisLink;
  #known: ReadonlySet<string> = new Set();
  #reason: string | undefined;
  #timer: Timer | undefined;
  #attempt = 0;
  #isClosed = false;

  constructor(client: Cluster, link: RedisLink) {
    this.#client = client;
    this.#link = link;
    client.on('error', (error: Error) => (this.#reason = reasonOf(error)));
    client.on('node error', (error: Error) => (this.#reason = reasonOf(error)));
    client.on('close', () => this.#lost());
    client.on('ready', () => this.#lookAfter(0));
    // A replica that goes away holds nothing, nor does the address of a server from the URL, which may have another one.
    client.on('-node', (server: Redis) => {
      if (this.#known.has(nameOf(server))) this.#lost();
    });
    // A replica that has taken over may lack what its master was told last, though no connection was lost.
    client.on('refresh', () => {
      const now = this.#names();
      const isSame = now.size === this.#known.size && [...now].every((name) => this.#known.has(name));
      if (this.#link.isWhole && !isSame) this.#lost();
    });
  }

  /** Finds out whether the cluster is whole, and asks again until it is. */
  async look(): Promise<void> {
    const isWhole = await allAnswer(this.#client);
    if (this.#isClosed) return;
    if (isWhole) {
      this.#known = this.#names();
      this.#attempt = 0;
      this.#reason = undefined;
      this.#link.regained();
    } else {
      if (this.#client.status === 'ready') this.#client.refreshSlotsCache();
      this.#lost();
    }
  }

  close(): void {
    this.#isClosed = true;
    clock.clear(this.#timer);
  }

  #lost(): void {
    if (this.#isClosed) return;
    this.#link.lost(this.#reason);
    this.#lookAfter(retryAfterMs(Math.min(this.#attempt++, SHORT_ATTEMPTS)));
  }

  #lookAfter(ms: number): void {
    clock.clear(this.#timer);
    this.#timer = clock.setTimeout(() => void this.look(), ms);
    this.#timer.unref();
  }

  #names(): Set<string> {
    return new Set(this.#client.nodes('master').map(nameOf));
  }
}

/** Listens on sharded channels, each at the master that has it. */
class ShardSubscriber implements RedisSubscriber {
  readonly #client: Cluster;
  readonly #options: ServerOptions;
  readonly #channels = new Map<string, ShardChannel>();
  readonly #messageHandlers: ((text: string) => void)[] = [];
  readonly #missedHandlers: (() => void)[] = [];

  constructor(client: Cluster, options: ServerOptions) {
    this.#client = client;
    this.#options = options;
  }

  listen(channels: readonly string[]): void {
    for (const name of channels) {
      let channel = this.#channels.get(name);
      if (channel === undefined) {
        channel = new ShardChannel({
          name,
          client: this.#client,
          options: this.#options,
          onMessage: (text) => this.#messageHandlers.forEach((handler) => handler(text)),
          onMissed: () => this.#missedHandlers.forEach((handler) => handler()),
        });
        this.#channels.set(name, channel);
      }
      void channel.listen();
    }
  }

  onMessage(handler: (text: string) => void): void {
    this.#messageHandlers.push(handler);
  }

  onMissed(handler: () => void): void {
    this.#missedHandlers.push(handler);
  }

  async close(): Promise<void> {
    for (const channel of this.#channels.values()) channel.close();
    this.#channels.clear();
  }
}

interface ShardChannelParts {
  name: string;
  client: Cluster;
  options: ServerOptions;
  onMessage: (text: string) => void;
  onMissed: () => void;
}

/**
 * One channel with a connection of its own. The client has subscribers for sharded channels too, but they note a channel
 * once more with each call, throw while a slot has no server, and do not notice a connection that has become silent.
 */
class ShardChannel {
  readonly #parts: ShardChannelParts;
  #slot: number | undefined;
  #server: string | undefined;
  #connection: Redis | undefined;
  #listens = false;
  #hasListened = false;
  #isBusy = false;
  #isClosed = false;

  constructor(parts: ShardChannelParts) {
    this.#parts = parts;
  }

  async listen(): Promise<void> {
    const { name, client, onMissed } = this.#parts;
    if (this.#isBusy) return;
    this.#isBusy = true;
    try {
      const slot = (this.#slot ??= await client.cluster('KEYSLOT', name));
      const server = client.slots[slot]?.[0];
      if (server === undefined || this.#isClosed) return;
      await this.#connectTo(server).ssubscribe(name);
      if (this.#listens) return;
      this.#listens = true;
      if (this.#hasListened) onMissed();
      this.#hasListened = true;
    } catch {
      this.#listens = false;
      // Another server may have the channel now. The next call finds it.
      if (client.status === 'ready') client.refreshSlotsCache();
    } finally {
      this.#isBusy = false;
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#connection?.disconnect();
  }

  #connectTo(server: string): Redis {
    if (this.#connection !== undefined && server === this.#server && this.#connection.status !== 'end') {
      return this.#connection;
    }
    this.#connection?.disconnect();
    this.#listens = false;
    const { options, onMessage } = this.#parts;
    const at = server.lastIndexOf(':');
    const connection = new Redis({
      ...options,
      host: server.slice(0, at),
      port: Number(server.slice(at + 1)),
      retryStrategy: () => null,
    });
    // The failure of the subscription says it.
    connection.on('error', () => {});
    connection.on('close', () => {
      if (this.#connection === connection) this.#listens = false;
    });
    connection.on('smessage', (_channel: string, text: string) => onMessage(text));
    this.#connection = connection;
    this.#server = server;
    return connection;
  }
}
