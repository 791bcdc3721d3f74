import pg from 'pg';
import { serversOf } from '../../database-url.ts';
import { NotPrimaryError } from './database-errors.ts';

/**
 * Which server a connection leads to. An address may name several servers, and a proxy may lead to another one than
 * before: only a primary is of use, and never one that another has taken over from.
 * See docs/decisions/database-failover.md.
 */

/** The longest that opening a connection may take. */
export const CONNECT_MS = 4000;

/** What a server says about itself. */
interface Standing {
  isReadOnly: boolean;
  /** The same for a primary and all its standbys; null where the server does not tell. */
  system: string | null;
  /** Grows by one whenever a standby takes over; null where the server does not tell, and of a standby. */
  timeline: number | null;
}

/** The control file does not count: it names the new timeline only after the first checkpoint. */
const STANDING = `select current_setting('transaction_read_only') = 'on' as "isReadOnly",
  system_identifier::text as system,
  case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end as timeline
  from pg_control_system()`;
/** Where a service does not allow or has not the functions of the other one. */
const BARE_STANDING = `select current_setting('transaction_read_only') = 'on' as "isReadOnly",
  null as system, null as timeline`;

/** What each new connection is asked, before it is used. */
export const QUESTIONS_OF_CONNECTIONS: readonly string[] = [STANDING, BARE_STANDING];

async function standingOf(client: pg.ClientBase): Promise<Standing> {
  type Row = Omit<Standing, 'timeline'> & { timeline: string | null };
  const ask = async (text: string): Promise<Standing> => {
    const { rows } = await client.query<Row>(text);
    const { isReadOnly = true, system = null, timeline = null } = rows[0] ?? {};
    return { isReadOnly, system, timeline: timeline === null ? null : Number.parseInt(timeline, 16) };
  };
  try {
    return await ask(STANDING);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || !NOT_TOLD.test(error.code ?? '')) throw error;
    return ask(BARE_STANDING);
  }
}

/** Not supported, not ready for it, not allowed, no such function. */
const NOT_TOLD = /^(0A000|55000|42501|42883)$/;

interface Admitted {
  client: pg.ClientBase;
  timeline: number;
}

/** Of one system: the newest timeline that this process has met, and its connections. */
interface KnownSystem {
  newest: number;
  admitted: Set<Admitted>;
}
const systems = new Map<string, KnownSystem>();

/**
 * Throws a `NotPrimaryError` if the connection leads to a server that takes no writes, or to one that was primary before
 * another that this process has met. The connections to a server are closed when its successor is met.
 */
async function admit(client: pg.ClientBase): Promise<void> {
  const { isReadOnly, system, timeline } = await standingOf(client);
  if (isReadOnly) throw new NotPrimaryError('It is a standby, or is set to read only.');
  if (system === null || timeline === null) return;
  const known = systems.get(system) ?? { newest: timeline, admitted: new Set() };
  systems.set(system, known);
  if (timeline < known.newest) {
    throw new NotPrimaryError(
      `It was the primary before another server took over: its timeline is ${timeline}, and there is ${known.newest}.`,
    );
  }
  if (timeline > known.newest) {
    known.newest = timeline;
    for (const each of known.admitted) {
      if (each.timeline === timeline) continue;
      streamOf(each.client).destroy(new NotPrimaryError('Another has taken over.'));
    }
  }
  const entry = { client, timeline };
  known.admitted.add(entry);
  client.once('end', () => known.admitted.delete(entry));
}

/** The part of the driver's client that its types leave out. */
const streamOf = (client: pg.ClientBase) =>
  (client as pg.ClientBase & { connection: { stream: { destroy(error?: Error): void } } }).connection.stream;

/** Opens connections to whichever of the servers of an address is the primary. */
export class Primary {
  readonly #servers: readonly string[];
  readonly #throughPooler: boolean;
  /** The one that was the primary last; the only one where the address names no other. */
  #chosen: string | undefined;
  #choosing: Promise<string> | undefined;

  /**
   * @param throughPooler  a pooler gives each transaction another session: what one of them says holds for none of the
   * others, and a pooler that is busy would let it wait
   */
  constructor(url: string, throughPooler = false) {
    this.#throughPooler = throughPooler;
    this.#servers = serversOf(url);
    this.#chosen = this.#servers.length === 1 ? url : undefined;
  }

  /** @param open  connects to one server; has to handle errors of the connection */
  async connect<Client extends pg.ClientBase>(open: (url: string) => Promise<Client>): Promise<Client> {
    const wasChosen = this.#chosen;
    try {
      return await this.#open(open, wasChosen ?? (await this.#choose()));
    } catch (error) {
      if (this.#servers.length === 1) throw error;
      if (this.#chosen === wasChosen) this.doubt();
      // Without a choice before, all servers have just been asked.
      if (wasChosen === undefined) throw error;
    }
    return this.#open(open, this.#chosen ?? (await this.#choose()));
  }

  /** Lets the next connection ask all servers again, if there are several. */
  doubt(): void {
    if (this.#servers.length > 1) this.#chosen = undefined;
  }

  async #open<Client extends pg.ClientBase>(
    open: (url: string) => Promise<Client>,
    url: string,
  ): Promise<Client> {
    const client = await open(url);
    if (this.#throughPooler) return client;
    try {
      await admit(client);
      return client;
    } catch (error) {
      streamOf(client).destroy();
      throw error;
    }
  }

  /** All who wait for a choice wait for the same. */
  #choose(): Promise<string> {
    this.#choosing ??= newestPrimary(this.#servers)
      .then((chosen) => (this.#chosen = chosen))
      .finally(() => (this.#choosing = undefined));
    return this.#choosing;
  }
}

/** All are asked at once, because one that is gone may be silent. Of several primaries, the last one to take over. */
async function newestPrimary(urls: readonly string[]): Promise<string> {
  const found = await Promise.allSettled(urls.map((url) => askedStanding(url)));
  const standings = found.flatMap((result, index) =>
    result.status === 'fulfilled' && !result.value.isReadOnly
      ? [{ url: urls[index] ?? '', timeline: result.value.timeline ?? 0 }]
      : [],
  );
  const newest = standings.toSorted((one, other) => other.timeline - one.timeline)[0];
  if (newest !== undefined) return newest.url;
  if (found.some(({ status }) => status === 'fulfilled')) {
    throw new NotPrimaryError('None of the servers that the address names takes writes.');
  }
  throw found.find((result) => result.status === 'rejected')?.reason;
}

async function askedStanding(url: string): Promise<Standing> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'muster-primary',
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: CONNECT_MS,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await standingOf(client);
  } finally {
    streamOf(client).destroy();
  }
}

/** Opens a connection to the primary. @param prepare  is called before it connects, for listeners */
export function connectToPrimary(
  url: string,
  settings: Omit<pg.ClientConfig, 'connectionString'>,
  prepare: (client: pg.Client) => void = () => undefined,
): Promise<pg.Client> {
  return new Primary(url).connect(async (connectionString) => {
    const limits = { connectionTimeoutMillis: CONNECT_MS, query_timeout: CONNECT_MS };
    const client = new pg.Client({ ...limits, ...settings, connectionString });
    // Without a listener, an error would end the process.
    client.on('error', () => undefined);
    prepare(client);
    try {
      await client.connect();
      return client;
    } catch (error) {
      streamOf(client).destroy();
      throw error;
    }
  });
}
