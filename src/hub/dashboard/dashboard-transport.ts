import type { DefaultEventsMap, Namespace, Server, Socket } from 'socket.io';
import {
  DASHBOARD_NAMESPACE,
  DashboardHandshake,
  type DashboardToHub,
  type DeviceSummary,
  type HubToDashboard,
} from '../../protocol/index.ts';
import type { Caller, ClientInfo } from '../../platform/context.ts';
import { holds } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import { clientAddress, countedNetwork, type ProxyTrust } from '../../platform/http/client-address.ts';
import type { Logger } from '../../platform/logger.ts';
import type { RunLiveQuery } from '../device/live-query.ts';
import type { DashboardAccess } from '../access/dashboard-access.ts';
import type { DashboardFeed } from '../feed/dashboard-feed.ts';
import { DashboardInbox, errorAck } from './dashboard-inbox.ts';
import type { DashboardQuotas } from './dashboard-limits.ts';
import { DashboardQueries, type QueryClient } from './dashboard-queries.ts';
import { DashboardSubscriptions } from './dashboard-subscriptions.ts';
import { isHandshakeReleased } from '../sockets/release-handshake.ts';
import { DashboardJobs } from '../jobs/dashboard-jobs.ts';
import type { JobAudience } from '../jobs/job-audience.ts';
import { PacedJobs } from '../jobs/paced-jobs.ts';
import type { Reach } from '../cluster/reach.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import { type FlowControl, FlowControlledClient } from '../sockets/flow-controlled-client.ts';
import type { CommandLedger } from '../ports/command-ledger.ts';
import type { DeviceStore } from '../ports/device-store.ts';
import type { LongWork } from '../ports/long-work.ts';
import type { LogReads, People } from '../ports/people.ts';

interface SocketData {
  caller: Caller;
  authenticate: () => Promise<Caller>;
  leave: () => void;
}
type DashboardSocket = Socket<DashboardToHub, HubToDashboard, DefaultEventsMap, SocketData>;
type DashboardNamespace = Namespace<DashboardToHub, HubToDashboard, DefaultEventsMap, SocketData>;

interface Parts {
  people: People;
  proxyTrust: ProxyTrust;
  store: DeviceStore;
  feed: DashboardFeed;
  /** Adds the live state to a device that was read from the database. */
  latest: (device: DeviceSummary) => DeviceSummary;
  live: LiveFilters | undefined;
  ledger: CommandLedger;
  work: LongWork | undefined;
  jobAudience: JobAudience;
  query: RunLiveQuery;
  logReads: LogReads | undefined;
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
export function serveDashboards(io: Server, parts: Parts): void {
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

async function admit(socket: DashboardSocket, { people, proxyTrust, quotas }: Parts): Promise<SocketData> {
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

function serve(socket: DashboardSocket, parts: Parts): void {
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
  const access = allAccess.admit({
    caller,
    authenticate,
    onLost: () => socket.disconnect(true),
    onDevicesChanged() {
      subscriptions.reread();
      Promise.all([queries.recheck(access.caller), jobs.recheck(access.caller)]).catch((error: unknown) => {
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
