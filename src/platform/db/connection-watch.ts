import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import pg from 'pg';
import { clock, type Timer } from '../../clock.ts';
import { isReadOnlyDatabase, NotPrimaryError } from './database-errors.ts';

/** A connection that owes an answer is looked into after this time without a byte in either direction. */
const SILENT_MS = 4000;
/** How often the connections are looked at within that time. */
const LOOKS = 4;
/** One that has said goodbye, and waits for the server to close it, is closed after fewer looks: nothing can be lost. */
const LOOKS_WHEN_ENDING = 2;
/** The parts of the driver's client that its types leave out. */
type WatchedClient = pg.Client & {
  connection: EventEmitter & { stream: Socket };
  processID: number | null;
  /** False from the moment in which a query is sent until the server has answered all of it. */
  readyForQuery?: boolean;
  _ending: boolean;
  /** Knex does not hand out a connection that has this, but closes it. */
  __knex__disposed?: Error;
};

interface Watched {
  client: WatchedClient;
  /** Of the server that it was made to. */
  url: string;
  /** Bytes that had passed in either direction when it was looked at last. */
  bytes: number;
  /** Looks in a row that found it owing an answer, and no byte since the one before. */
  silentLooks: number;
  /** Whether the server has said that it does not work on the query. */
  isDoubted: boolean;
}

/** The state of silent connections as a new one learns it: which of them the server works for, or that it is gone. */
type Verdict = { working: ReadonlySet<number> } | 'unreachable' | 'unknown';

/**
 * Finds connections whose server, or the network to it, has gone without closing them, and destroys them. A query has
 * no time limit for this: a silent connection is only given up when the server, asked over a new connection, does not
 * work on its query, or cannot be reached at all. So a statement may take as long as its own limits allow, and a lost
 * connection is found within seconds.
 */
export class ConnectionWatch {
  readonly #onReadOnly: () => void;
  readonly #silentMs: number;
  readonly #lookMs: number;
  readonly #watched = new Set<Watched>();
  #timer: Timer | undefined;
  #isAsking = false;

  /** @param onReadOnly  is called when a server has refused a write */
  constructor(silentMs = SILENT_MS, onReadOnly = () => {}) {
    this.#onReadOnly = onReadOnly;
    this.#silentMs = silentMs;
    this.#lookMs = silentMs / LOOKS;
  }

  /** @param url  of the server that it leads to */
  add(connection: pg.Client, url: string): void {
    const client = connection as WatchedClient;
    const watched: Watched = { client, url, bytes: bytesOf(client), silentLooks: 0, isDoubted: false };
    this.#watched.add(watched);
    this.#timer ??= clock.setInterval(() => this.#look(), this.#lookMs).unref();
    // The server has become a standby, or a pooler leads to one: the primary is found by connecting anew.
    client.connection.on('errorMessage', (error: unknown) => {
      if (!isReadOnlyDatabase(error)) return;
      this.#replaceAll(new NotPrimaryError('It has refused a write.'));
      this.#onReadOnly();
    });
    client.connection.stream.once('close', () => {
      this.#watched.delete(watched);
      if (this.#watched.size > 0) return;
      clock.clear(this.#timer);
      this.#timer = undefined;
    });
  }

  #look(): void {
    const silent: Watched[] = [];
    for (const watched of this.#watched) {
      const { client } = watched;
      const bytes = bytesOf(client);
      const owes = client._ending || client.readyForQuery === false;
      // A slow reader of a large answer has paused the stream. In that case it is not the server that is silent.
      const isSilent = owes && bytes === watched.bytes && !client.connection.stream.isPaused();
      watched.bytes = bytes;
      watched.silentLooks = isSilent ? watched.silentLooks + 1 : 0;
      if (!isSilent) watched.isDoubted = false;
      if (client._ending) {
        if (watched.silentLooks >= LOOKS_WHEN_ENDING) client.connection.stream.destroy();
      } else if (watched.silentLooks >= LOOKS) silent.push(watched);
    }
    if (silent.length > 0 && !this.#isAsking) void this.#lookIntoAll(silent);
  }

  async #lookIntoAll(silent: readonly Watched[]): Promise<void> {
    this.#isAsking = true;
    const urls = new Set(silent.map(({ url }) => url));
    await Promise.all(
      [...urls].map((url) =>
        this.#lookInto(
          url,
          silent.filter((watched) => watched.url === url),
        ),
      ),
    );
    this.#isAsking = false;
  }

  async #lookInto(url: string, silent: readonly Watched[]): Promise<void> {
    const verdict = await this.#ask(
      url,
      silent.map(({ client }) => client.processID ?? 0),
    );
    if (verdict === 'unknown') return;
    for (const watched of silent) {
      const { client } = watched;
      // The answer may have arrived since the check began.
      if (watched.silentLooks < LOOKS || bytesOf(client) !== watched.bytes) continue;
      if (verdict !== 'unreachable' && verdict.working.has(client.processID ?? 0)) watched.isDoubted = false;
      // The last bytes of an answer may be under way: only the second verdict counts.
      else if (verdict !== 'unreachable' && !watched.isDoubted) watched.isDoubted = true;
      else this.#giveUp(watched);
    }
  }

  #giveUp({ client }: Watched): void {
    // The others took the same way, and those that are idle would each cost a request such a wait.
    this.#replaceAll(new LostConnectionError());
    client.connection.stream.destroy(new LostConnectionError());
  }

  /** None is handed out again; what runs on them goes on. */
  #replaceAll(reason: Error): void {
    for (const { client } of this.#watched) client.__knex__disposed ??= reason;
  }

  async #ask(url: string, pids: readonly number[]): Promise<Verdict> {
    const probe = new pg.Client({
      connectionString: url,
      application_name: 'muster-watch',
      connectionTimeoutMillis: this.#silentMs,
      query_timeout: this.#silentMs,
    });
    probe.on('error', () => undefined);
    try {
      await probe.connect();
      const { rows } = await probe.query<{ own: number; working: number[] }>(
        // A session that waits for its client has sent its answer, or has not received its query.
        `select pg_backend_pid() as own, array(select pid from pg_stat_activity where pid = any($1::int[])
          and state = 'active' and wait_event_type is distinct from 'Client') as working`,
        [pids],
      );
      const [row] = rows;
      // Behind a connection pooler the process ids that the driver knows are not those of the server.
      if (row === undefined || row.own !== (probe as WatchedClient).processID) return 'unknown';
      return { working: new Set(row.working) };
    } catch (error) {
      // A refusal comes from a server that is there, and that closes its connections itself when it goes.
      return error instanceof pg.DatabaseError ? 'unknown' : 'unreachable';
    } finally {
      (probe as WatchedClient).connection.stream.destroy();
    }
  }
}

/** The error of a query whose connection was given up. */
export class LostConnectionError extends Error {
  readonly code = 'ETIMEDOUT';

  constructor() {
    super('The database does not answer on this connection any more.');
    this.name = 'LostConnectionError';
  }
}

function bytesOf({ connection: { stream } }: WatchedClient): number {
  return stream.bytesRead + stream.bytesWritten;
}
