import type { Cluster, Redis } from 'ioredis';
import type { Logger } from '../logger.ts';

/**
 * What the kinds of Redis have in common: one server, one that Sentinels choose, and a Redis Cluster. `openRedis` in
 * `redis.ts` opens each of them.
 */
export interface RedisConnection {
  /**
   * Its commands fail at once while Redis is away; none are queued until it returns, and none is sent twice. All keys of
   * one command have the same hash tag, because a Redis Cluster refuses any others.
   */
  readonly client: Redis | Cluster;
  /** A Redis Cluster, whose keys are spread over several servers. */
  readonly isSharded: boolean;
  /** Whether it answers at this moment: in a cluster, each of the servers that hold keys. */
  isUp(): Promise<boolean>;
  /** Whether the connections stand. While they do not, what was written last may be lost. */
  isWhole(): boolean;
  onChange(handler: (isWhole: boolean) => void): void;
  /** Returns how many listen on the channel. */
  publish(channel: string, text: string): Promise<number>;
  /** One more connection, because one that listens can send no other commands. */
  openSubscriber(): Promise<RedisSubscriber>;
  close(): Promise<void>;
}

export interface RedisSubscriber {
  /** Listens on these channels from now on. Called again and again, it finds out that a silent connection is broken. */
  listen(channels: readonly string[]): void;
  onMessage(handler: (text: string) => void): void;
  /** It listens again after a time in which messages may have been missed. */
  onMissed(handler: () => void): void;
  close(): Promise<void>;
}

/** A command that Redis has not answered within this time fails. */
export const COMMAND_MS = 500;
export const CONNECT_MS = 2000;
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2000;

/** How a connection to one server of any kind behaves. */
export const CONNECTION = {
  connectionName: 'muster',
  connectTimeout: CONNECT_MS,
  commandTimeout: COMMAND_MS,
  // A connection that has owed an answer for this long is dropped, so that later commands fail at once.
  socketTimeout: 1000,
  // A command that was sent before the connection broke may have taken effect: it fails and is not sent twice.
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  // The client would not catch the failure of a subscription that it repeats, which would end the process. Who listens
  // subscribes again.
  autoResubscribe: false,
} as const;

/** Doubling up to a bound, and spread: many nodes lose it in the same moment. */
export function retryAfterMs(attempt: number): number {
  const most = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(attempt, 10));
  return Math.round(most / 2 + Math.random() * (most / 2));
}

/**
 * Takes only the code of an error of Redis: Redis quotes a command that it refuses, and the first one carries the
 * password. So may the message of the client about Sentinels and clusters, which repeats that of the last server.
 */
export function reasonOf(error: Error): string {
  if ('lastNodeError' in error && error.lastNodeError instanceof Error) return reasonOf(error.lastNodeError);
  if ('code' in error && typeof error.code === 'string') return error.code;
  if (error.name === 'ReplyError') return error.message.split(' ', 1)[0] ?? error.name;
  return error.message.split(/ Retrying| Last error/, 1)[0] ?? error.name;
}

/** Whether Redis is reached. Each loss and each return is logged and told once. */
export class RedisLink {
  readonly #redis: string;
  readonly #log: Logger | undefined;
  readonly #handlers: ((isWhole: boolean) => void)[] = [];
  #isWhole = false;
  #wasLost = false;
  #isClosing = false;

  /**
   * @param redis  its address, without a password
   * @param log    left out for a further connection to the same Redis
   */
  constructor(redis: string, log: Logger | undefined) {
    this.#redis = redis;
    this.#log = log;
  }

  get isWhole(): boolean {
    return this.#isWhole;
  }

  onChange(handler: (isWhole: boolean) => void): void {
    this.#handlers.push(handler);
  }

  lost(reason: string | undefined): void {
    // Each attempt to connect that fails is a loss once more.
    if (!this.#wasLost && !this.#isClosing) this.#log?.warn({ redis: this.#redis, reason }, 'redis.lost');
    this.#wasLost = true;
    this.#become(false);
  }

  regained(): void {
    if (this.#wasLost) this.#log?.info({ redis: this.#redis }, 'redis.regained');
    this.#wasLost = false;
    this.#become(true);
  }

  /** A loss from now on is meant. */
  closing(): void {
    this.#isClosing = true;
  }

  #become(isWhole: boolean): void {
    if (this.#isWhole === isWhole) return;
    this.#isWhole = isWhole;
    for (const handler of this.#handlers) handler(isWhole);
  }
}
