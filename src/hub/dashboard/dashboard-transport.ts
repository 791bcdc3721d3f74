import { clock } from '../../clock.ts';
import type { DefaultEventsMap, Namespace, Server, Socket } from 'socket.io';
import {
  DASHBOARD_NAMESPACE,
  DashboardHandshake,
  type DashboardToHub,
  type DeviceSummary,
  type HubToDashboard,
  type DevicesDelta,
  type DevicesEnded,
  type DevicesSnapshot,
  type DevicesSubscribe,
} from '../../protocol/index.ts';
import { type Caller, type ClientInfo, holds } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import { clientAddress, countedNetwork, type ProxyTrust } from '../../platform/http/client-address.ts';
import type { Logger } from '../../platform/logger.ts';
import type { RunLiveQuery } from '../device/live-query.ts';
import type { DashboardAccess } from './dashboard-access.ts';
import type { DashboardFeed } from '../feed/dashboard-feed.ts';
import { DashboardInbox, errorAck, type DashboardQuotas, type Quota } from './dashboard-limits.ts';
import { DashboardQueries, type QueryClient } from './dashboard-queries.ts';
import { isHandshakeReleased } from '../wire/socket-server.ts';
import { DashboardJobs, PacedJobs } from '../commands/dashboard-jobs.ts';
import type { JobAudience } from '../commands/job-feed.ts';
import type { Reach } from '../cluster/directory.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import { type FlowControl, FlowControlledClient } from '../wire/flow-controlled-client.ts';
import type {
  CommandLedger,
  DeviceStore,
  LogReads,
  LongWork,
  People,
  StoredDevice,
  TerminalStore,
} from '../ports.ts';
import { DashboardTerminals } from '../terminals/dashboard-terminals.ts';
import { deltaEvent } from '../subscriptions/device-change.ts';
import { type PageReader, storedPages } from '../subscriptions/pages.ts';
import { Subscription } from '../subscriptions/subscription.ts';

const MAX_SUBSCRIPTIONS = 20;

interface SubscriptionParts {
  store: DeviceStore;
  feed: DashboardFeed;
  /** Adds the live state to a device that was read from the database. */
  latest: (stored: StoredDevice) => DeviceSummary;
  live: LiveFilters | undefined;
  quotas: { subscriptions: Quota };
}

/** The connection of a client, as its live device lists use it. */
interface SubscriptionClient {
  client: FlowControlledClient;
  ended(message: DevicesEnded): void;
}

/** The live device lists of one dashboard connection. They end with it. */
class DashboardSubscriptions {
  readonly #open = new Map<string, { subscription: Subscription; end: () => void }>();
  readonly #connection: SubscriptionClient;
  readonly #parts: SubscriptionParts;

  constructor(connection: SubscriptionClient, parts: SubscriptionParts) {
    this.#connection = connection;
    this.#parts = parts;
  }

  /** The connection must be open. If it ends while this waits, the result has no effect. */
  async subscribe(caller: Caller, filter: DevicesSubscribe): Promise<DevicesSnapshot> {
    const { feed, latest, store, quotas } = this.#parts;
    if (this.#open.size >= MAX_SUBSCRIPTIONS) {
      throw new AppError('rate_limited', `A connection may have at most ${MAX_SUBSCRIPTIONS} subscriptions.`);
    }
    const isFiltered = filter.filterId !== undefined || filter.conditions !== undefined;
    const live = isFiltered ? liveFilters(this.#parts.live) : undefined;
    const { client } = this.#connection;
    const send = (delta: DevicesDelta) => client.emitJson(deltaEvent(delta));
    const pages = (): PageReader =>
      live?.pages(subscription) ?? storedPages(store, latest, { caller, filter });
    const endsWith = (error: unknown) => {
      // For example, its organization was deleted: the client is notified, and its other lists continue.
      const isFinal = error instanceof AppError && error.code !== 'unavailable';
      if (isFinal) endWith(error);
      return isFinal;
    };
    const release = quotas.subscriptions.acquire(caller.userId);
    const subscription = new Subscription({ caller, filter, send, flow: client, pages, endsWith });
    let reason: AppError | undefined;
    let isShown = false;
    const end = () => {
      release();
      this.#open.delete(subscription.id);
      feed.remove(subscription);
    };
    const endWith = (why: AppError) => {
      reason = why;
      end();
      if (!isShown) return;
      const { code, message } = errorAck(why).error;
      this.#connection.ended({ subscriptionId: subscription.id, code, message });
    };
    // This comes before the first read, so that no change is lost between the two.
    this.#open.set(subscription.id, { subscription, end });
    feed.add(subscription);
    try {
      await live?.follow(subscription, endWith);
      const first = await subscription.begin();
      if (reason !== undefined) throw reason;
      isShown = true;
      return { ok: true, subscriptionId: subscription.id, ...first };
    } catch (error) {
      end();
      throw error;
    }
  }

  unsubscribe(subscriptionId: string): void {
    this.#open.get(subscriptionId)?.end();
  }

  /** The caller may see other devices now, with the same rights. */
  accessChanged(): void {
    for (const { subscription } of this.#open.values()) subscription.accessChanged();
  }

  close(): void {
    for (const { end } of this.#open.values()) end();
  }
}

function liveFilters(live: LiveFilters | undefined): LiveFilters {
  if (live === undefined) throw new AppError('unavailable', 'Live filters are not available on this server.');
  return live;
}

interface SocketData {
  caller: Caller;
  authenticate: () => Promise<Caller>;
  leave: () => void;
}
type DashboardSocket = Socket<DashboardToHub, HubToDashboard, DefaultEventsMap, SocketData>;
type DashboardNamespace = Namespace<DashboardToHub, HubToDashboard, DefaultEventsMap, SocketData>;

export interface DashboardParts {
  people: People;
  proxyTrust: ProxyTrust;
  store: DeviceStore;
  feed: DashboardFeed;
  /** Adds the live state to a device that was read from the database. */
  latest: (stored: StoredDevice) => DeviceSummary;
  live: LiveFilters | undefined;
  ledger: CommandLedger;
  work: LongWork | undefined;
  jobAudience: JobAudience;
  query: RunLiveQuery;
  logReads: LogReads | undefined;
  terminals: TerminalStore | undefined;
  /** `undefined`: there are no other nodes. */
  reach: Reach | undefined;
  log: Logger;
  access: DashboardAccess;
  quotas: DashboardQuotas;
  /** A client was disconnected because it did not read what it was sent. */
  onCutOff: () => void;
  /** A message was refused. */
  onRefused: () => void;
  /** How long a client may read nothing (default 20 s). */
  patienceMs?: number;
}

/** Serves dashboards on their namespace: authenticates each connection and builds its parts. */
export function serveDashboards(io: Server, parts: DashboardParts): void {
  const namespace: DashboardNamespace = io.of(DASHBOARD_NAMESPACE);
  namespace.use((socket: DashboardSocket, next) => {
    admit(socket, parts).then(
      (data) => {
        socket.data = data;
        next();
      },
      (error: unknown) => next(refusal(error)),
    );
  });
  namespace.on('connection', (socket: DashboardSocket) => serve(socket, parts));
  parts.reach?.onChange((isWhole) => namespace.local.emit('hub:state', { isWhole }));
}

async function admit(
  socket: DashboardSocket,
  { people, proxyTrust, quotas }: DashboardParts,
): Promise<SocketData> {
  // The connection serves an agent: its handshake was released, and with it the address that a person's limits need.
  if (isHandshakeReleased(socket)) {
    throw new AppError('forbidden', 'This connection belongs to an agent. Open another one.');
  }
  const handshake = DashboardHandshake.safeParse(socket.handshake.auth);
  if (!handshake.success) throw new AppError('unauthenticated', 'Send an access token as auth.token.');
  const client = clientOf(socket, proxyTrust);
  const authenticate = () => people.authenticate(handshake.data.token, client);
  const held = [quotas.addresses.acquire(countedNetwork(client))];
  const leave = () => {
    for (const release of held) release();
  };
  try {
    const caller = await authenticate();
    if (!holds(caller.permissions, 'devices:read')) {
      throw new AppError('forbidden', 'This needs the permission devices:read.');
    }
    await people.countUse(caller);
    held.push(quotas.connections.acquire(caller.userId));
    // The connection may end before it is served, or may have ended already.
    socket.conn.once('close', leave);
    if (socket.conn.readyState !== 'open') throw new AppError('unavailable', 'The connection has ended.');
    return { caller, authenticate, leave };
  } catch (error) {
    leave();
    throw error;
  }
}

function serve(socket: DashboardSocket, parts: DashboardParts): void {
  const { people, access: allAccess, log } = parts;
  const { caller, authenticate, leave } = socket.data;
  if (parts.reach?.isWhole() === false) socket.emit('hub:state', { isWhole: false });
  const client = new FlowControlledClient(socket, { onCutOff: parts.onCutOff, patienceMs: parts.patienceMs });
  const subscriptions = new DashboardSubscriptions(
    { client, ended: (message) => void socket.emit('devices:ended', message) },
    parts,
  );
  const queries = new DashboardQueries(queryClient(socket, client, parts.proxyTrust), parts);
  const pacedJobs = new PacedJobs({ flow: client, send: (event) => client.emitJson(event) });
  const { ledger, work, jobAudience: audience } = parts;
  const jobs = new DashboardJobs(pacedJobs, { ledger, work, audience });
  const terminals = new DashboardTerminals(
    {
      client: () => clientOf(socket, parts.proxyTrust),
      output: (message) => void socket.emit('terminal:data', message),
      closed: (message) => void socket.emit('terminal:close', message),
    },
    () => access.caller,
    parts,
  );
  const access = allAccess.admit({
    caller,
    authenticate,
    onLost() {
      // A token that has expired says nothing about the person: the client comes back with the next one.
      if (!isExpired(access.caller)) terminals.endAll('access_ended');
      socket.disconnect(true);
    },
    onDevicesChanged() {
      subscriptions.accessChanged();
      const { caller: now } = access;
      const rechecks = [queries.recheck(now), jobs.recheck(now), terminals.recheck(now)];
      Promise.all(rechecks).catch((error: unknown) => {
        // It is unknown what is still allowed. A client that reconnects starts with its current rights.
        log.warn({ err: error }, 'hub.dashboard_work_not_rechecked');
        socket.disconnect(true);
      });
    },
  });
  socket.on('disconnect', () => {
    leave();
    access.close();
    client.close();
    queries.close();
    subscriptions.close();
    jobs.close();
    terminals.close();
    pacedJobs.close();
  });

  /** Starts work with current rights and counts it as a request of an API key. */
  const begin = async <T>(work: (caller: Caller) => Promise<T>): Promise<T> => {
    await people.countUse(access.caller);
    // Nothing is awaited between this and the work, so that no work begins for a connection that has just ended.
    return work(await access.current());
  };
  const inbox = new DashboardInbox({
    log,
    onRefused: parts.onRefused,
    onTooMany: () => socket.disconnect(true),
    handlers: {
      'devices:subscribe': (message) => begin((now) => subscriptions.subscribe(now, message)),
      async 'devices:unsubscribe'({ subscriptionId }) {
        subscriptions.unsubscribe(subscriptionId);
        return { ok: true };
      },
      'eventlogs:query': (message) => begin((now) => queries.query(now, message)),
      'eventlogs:tail': (message) => begin((now) => queries.tail(now, message)),
      async 'eventlogs:cancel'({ queryId }) {
        queries.cancel(queryId);
        return { ok: true };
      },
      'jobs:subscribe': (message) => begin((now) => jobs.subscribe(now, message)),
      async 'jobs:unsubscribe'(message) {
        jobs.unsubscribe(message);
        return { ok: true };
      },
      'terminal:open': (message) => begin((now) => terminals.open(now, message)),
      // Without a look-up of rights, which would change the order of what is typed. Rights that end, end the terminal.
      async 'terminal:data'(message) {
        terminals.input(message);
        return { ok: true };
      },
      async 'terminal:resize'(message) {
        terminals.resize(message);
        return { ok: true };
      },
      async 'terminal:close'({ terminalId }) {
        terminals.end(terminalId);
        return { ok: true };
      },
    },
  });
  socket.onAny((event: string, ...args: unknown[]) => inbox.receive(event, args));
}

/** While more rows than this wait for a client, no further device is queried for it. */
const PAUSE_ROWS = 2000;
/** Above this number the client does not read, and its queries are cancelled. */
const WAITING_ROWS_MAX = 10_000;

function queryClient(socket: DashboardSocket, flow: FlowControl, trust: ProxyTrust): QueryClient {
  let waiting = 0;
  let isWatched = false;
  const whenReady: (() => void)[] = [];
  const isReady = () => {
    isWatched = false;
    waiting = 0;
    for (const go of whenReady.splice(0)) go();
  };
  socket.on('disconnect', isReady);
  return {
    client: () => clientOf(socket, trust),
    rows(message) {
      waiting += message.rows.length;
      socket.emit('eventlogs:rows', message);
      if (isWatched) return;
      isWatched = true;
      flow.whenReady(isReady);
    },
    end: (message) => void socket.emit('eventlogs:end', message),
    async ready() {
      if (waiting <= PAUSE_ROWS || !socket.connected) return;
      await new Promise<void>((go) => whenReady.push(go));
    },
    isStuck: () => waiting > WAITING_ROWS_MAX,
  };
}

const isExpired = ({ validUntil }: Caller): boolean =>
  validUntil !== undefined && validUntil.getTime() <= clock.now();

function refusal(error: unknown): Error {
  const { error: body } = errorAck(error);
  return Object.assign(new Error(body.message), { data: body });
}

function clientOf({ handshake }: DashboardSocket, trust: ProxyTrust): ClientInfo {
  return {
    ...clientAddress({ peer: handshake.address, headers: handshake.headers }, trust),
    userAgent: handshake.headers['user-agent'] ?? null,
  };
}
