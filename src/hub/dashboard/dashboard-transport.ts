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
import type { Ask } from '../device/live-query.ts';
import type { DashboardAccess } from '../access/dashboard-access.ts';
import type { DashboardFeed } from '../feed/dashboard-feed.ts';
import { DashboardInbox, errorAck } from './dashboard-inbox.ts';
import { DashboardJobs } from './dashboard-jobs.ts';
import type { DashboardPlaces } from './dashboard-limits.ts';
import { DashboardQueries, type QueryClient } from './dashboard-queries.ts';
import { DashboardSubscriptions } from './dashboard-subscriptions.ts';
import { isBare } from '../sockets/release-handshake.ts';
import type { JobRooms } from '../commands/job-feed.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import { type Pace, PacedClient } from '../sockets/flow-controlled-client.ts';
import type { CommandLedger, DeviceStore, LogReads, People } from '../ports.ts';

interface SocketData {
  caller: Caller;
  authenticate: () => Promise<Caller>;
  leave: () => void;
}
type DashboardSocket = Socket<DashboardToHub, HubToDashboard, DefaultEventsMap, SocketData>;
export type DashboardNamespace = Namespace<DashboardToHub, HubToDashboard, DefaultEventsMap, SocketData>;

interface Parts {
  people: People;
  proxyTrust: ProxyTrust;
  store: DeviceStore;
  feed: DashboardFeed;
  /** The device as it was read, with what is known live laid over it. */
  latest: (device: DeviceSummary) => DeviceSummary;
  live: LiveFilters | undefined;
  ledger: CommandLedger;
  ask: Ask;
  logReads: LogReads | undefined;
  log: Logger;
  access: DashboardAccess;
  places: DashboardPlaces;
  /** Makes one of the rooms of all nodes. */
  joinOthers?: (namespace: DashboardNamespace) => void;
  /** A client did not read, and was cut off. */
  onCutOff: () => void;
  onRefused: () => void;
  /** How long it may read nothing (default 20 s). */
  patienceMs?: number;
}

/** The only place where people meet Socket.IO: who connects, and what their connection is made of. */
export function serveDashboards(io: Server, parts: Parts): JobRooms {
  const namespace: DashboardNamespace = io.of(DASHBOARD_NAMESPACE);
  parts.joinOthers?.(namespace);
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
  return {
    update: (rooms, job) => void namespace.to(rooms).emit('job:update', job),
    output: (rooms, output) => void namespace.to(rooms).emit('job:output', output),
  };
}

async function admit(socket: DashboardSocket, { people, proxyTrust, places }: Parts): Promise<SocketData> {
  // An agent's: it has forgotten where it came from, which counts for a person.
  if (isBare(socket)) {
    throw new AppError('forbidden', "This connection is an agent's. Open another one.");
  }
  const handshake = DashboardHandshake.safeParse(socket.handshake.auth);
  if (!handshake.success) throw new AppError('unauthenticated', 'Send an access token as auth.token.');
  const client = clientOf(socket, proxyTrust);
  const authenticate = () => people.authenticate(handshake.data.token, client);
  const held = [places.addresses.take(countedNetwork(client))];
  const leave = () => {
    for (const giveBack of held) giveBack();
  };
  try {
    const caller = await authenticate();
    if (!holds(caller.permissions, 'devices:read')) {
      throw new AppError('forbidden', 'This needs the permission devices:read.');
    }
    await people.countUse(caller);
    held.push(places.connections.take(caller.userId));
    // It may end before it is served, or have ended already.
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
  const pace = new PacedClient(socket, { onCutOff: parts.onCutOff, patienceMs: parts.patienceMs });
  const subscriptions = new DashboardSubscriptions(
    { pace, ended: (message) => void socket.emit('devices:ended', message) },
    parts,
  );
  const queries = new DashboardQueries(queryClient(socket, pace, parts.proxyTrust), parts);
  const jobs = new DashboardJobs(roomMember(socket), parts);
  const access = allAccess.admit({
    caller,
    authenticate,
    onLost: () => socket.disconnect(true),
    onDevicesChanged() {
      subscriptions.reread();
      Promise.all([queries.recheck(access.caller), jobs.recheck(access.caller)]).catch((error: unknown) => {
        // What is still allowed cannot be told from what is not: whoever comes back begins with what is.
        log.warn({ err: error }, 'hub.dashboard_work_not_rechecked');
        socket.disconnect(true);
      });
    },
  });
  socket.on('disconnect', () => {
    leave();
    access.close();
    pace.close();
    queries.close();
    subscriptions.close();
  });

  /** Work begins by rights that hold at this moment, and counts as a request of an API key. */
  const begin = async <T>(work: (caller: Caller) => Promise<T>): Promise<T> => {
    await people.countUse(access.caller);
    // Nothing is awaited between this and the work, so that no connection is worked for that has just ended.
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
        await jobs.unsubscribe(message);
        return { ok: true };
      },
    },
  });
  socket.onAny((event: string, ...args: unknown[]) => inbox.receive(event, args));
}

const roomMember = (socket: DashboardSocket) => ({
  // A connection that has ended meanwhile would stay in the room for ever.
  join: (rooms: string[]) => (socket.connected ? socket.join(rooms) : undefined),
  leave: (room: string) => socket.leave(room),
});

/** Rows that may wait for a client before no further device is asked for more. */
const PLENTY_OF_ROWS = 2000;
/** Beyond, it does not read, and is not sent what it would be sent. */
const MAX_WAITING_ROWS = 10_000;

function queryClient(socket: DashboardSocket, pace: Pace, trust: ProxyTrust): QueryClient {
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
      pace.whenReady(isReady);
    },
    end: (message) => void socket.emit('eventlogs:end', message),
    async ready() {
      if (waiting <= PLENTY_OF_ROWS || !socket.connected) return;
      await new Promise<void>((go) => whenReady.push(go));
    },
    isStuck: () => waiting > MAX_WAITING_ROWS,
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
