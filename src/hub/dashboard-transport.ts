import type { DefaultEventsMap, Namespace, Server, Socket } from 'socket.io';
import type { z } from 'zod';
import {
  DASHBOARD_EVENTS,
  DASHBOARD_NAMESPACE,
  DashboardHandshake,
  type DashboardToHub,
  type DevicesDelta,
  type DeviceSummary,
  type ErrorAck,
  type HubToDashboard,
} from '../protocol/index.ts';
import type { Caller, ClientInfo } from '../platform/context.ts';
import { holds } from '../platform/context.ts';
import { AppError } from '../platform/errors.ts';
import { clientAddress, type ProxyTrust } from '../platform/http/client-address.ts';
import type { Logger } from '../platform/logger.ts';
import type { Ask } from './ask.ts';
import type { DashboardFeed } from './dashboard-feed.ts';
import { DashboardJobs } from './dashboard-jobs.ts';
import { DashboardQueries, type QueryClient } from './dashboard-queries.ts';
import { deltaEvent } from './delta-event.ts';
import { isBare } from './forget-handshake.ts';
import type { JobRooms } from './job-feed.ts';
import type { LiveFilters } from './live-filters.ts';
import { type Pace, PacedClient } from './paced-client.ts';
import type { CommandLedger, DeviceStore, LogReads, People } from './ports.ts';
import { Subscription } from './subscription.ts';

interface SocketData {
  token: string;
  caller: Caller;
}
type DashboardSocket = Socket<DashboardToHub, HubToDashboard, DefaultEventsMap, SocketData>;
export type DashboardNamespace = Namespace<DashboardToHub, HubToDashboard, DefaultEventsMap, SocketData>;

/** Rights are read again this often; a person who lost or changed theirs is cut off and comes back with the new ones. */
const RECHECK_MS = 15_000;
const MAX_SUBSCRIPTIONS = 20;

export function serveDashboards(
  io: Server,
  parts: {
    people: People;
    proxyTrust: ProxyTrust;
    store: DeviceStore;
    feed: DashboardFeed;
    live: LiveFilters | undefined;
    ledger: CommandLedger;
    ask: Ask;
    logReads: LogReads | undefined;
    log: Logger;
    /** The stored state of devices with what is known live laid over it. */
    refreshed: (devices: DeviceSummary[]) => DeviceSummary[];
    recheckMs?: number;
    /** Makes one of the rooms of all nodes. */
    joinOthers?: (namespace: DashboardNamespace) => void;
    /** A client did not read, and was cut off. */
    onCutOff: () => void;
    /** How long it may read nothing (default 20 s). */
    patienceMs?: number;
  },
): JobRooms {
  const namespace: DashboardNamespace = io.of(DASHBOARD_NAMESPACE);
  parts.joinOthers?.(namespace);

  namespace.use((socket: DashboardSocket, next) => {
    // An agent's: it has forgotten where it came from, which counts for a person.
    if (isBare(socket)) {
      return next(refusal(new AppError('forbidden', "This connection is an agent's. Open another one.")));
    }
    const handshake = DashboardHandshake.safeParse(socket.handshake.auth);
    if (!handshake.success) {
      return next(refusal(new AppError('unauthenticated', 'Send an access token as auth.token.')));
    }
    parts.people.authenticate(handshake.data.token, clientOf(socket, parts.proxyTrust)).then(
      (caller) => {
        socket.data = { token: handshake.data.token, caller };
        next(
          holds(caller.permissions, 'devices:read')
            ? undefined
            : refusal(new AppError('forbidden', 'This needs the permission devices:read.')),
        );
      },
      (error: unknown) => next(refusal(error)),
    );
  });

  namespace.on('connection', (socket: DashboardSocket) => {
    const subscriptions = new Map<string, Subscription>();
    const pace = new PacedClient(socket, { onCutOff: parts.onCutOff, patienceMs: parts.patienceMs });
    const queries = new DashboardQueries(queryClient(socket, pace, parts.proxyTrust), parts);
    const jobs = new DashboardJobs(roomMember(socket), parts);
    const recheck = setInterval(() => {
      stillTheSame(socket, parts.people, parts.proxyTrust).then(
        (same) => same || socket.disconnect(true),
        (error: unknown) => parts.log.warn({ err: error }, 'hub.dashboard_recheck_failed'),
      );
    }, parts.recheckMs ?? RECHECK_MS);
    socket.on('disconnect', () => {
      clearInterval(recheck);
      pace.close();
      queries.close();
      for (const subscription of subscriptions.values()) parts.feed.remove(subscription);
    });

    const handle = {
      async 'devices:subscribe'(message: unknown) {
        const filter = parse(DASHBOARD_EVENTS['devices:subscribe'], message);
        if (subscriptions.size >= MAX_SUBSCRIPTIONS) {
          throw new AppError('rate_limited', `At most ${MAX_SUBSCRIPTIONS} subscriptions a connection.`);
        }
        const { caller } = socket.data;
        const send = (delta: DevicesDelta) => pace.emitJson(deltaEvent(delta));
        const isFiltered = filter.filterId !== undefined || filter.conditions !== undefined;
        const live = isFiltered ? liveFilters(parts.live) : undefined;
        const read = async () =>
          live?.read(subscription) ?? parts.refreshed(await parts.store.summaries(caller, filter));
        const subscription = new Subscription({ caller, filter, send, pace, read });
        let ended: AppError | undefined;
        let isShown = false;
        const end = () => {
          subscriptions.delete(subscription.id);
          parts.feed.remove(subscription);
        };
        // Before the first state is read, so that nothing falls between the two.
        subscriptions.set(subscription.id, subscription);
        parts.feed.add(subscription);
        try {
          await live?.follow(subscription, (why) => {
            ended = why;
            end();
            if (!isShown) return;
            const { code, message } = errorAck(why).error;
            socket.emit('devices:ended', { subscriptionId: subscription.id, code, message });
          });
          const devices = await read();
          if (ended !== undefined) throw ended;
          isShown = true;
          return { ok: true, subscriptionId: subscription.id, ...subscription.start(devices), devices };
        } catch (error) {
          end();
          throw error;
        }
      },
      async 'devices:unsubscribe'(message: unknown) {
        const { subscriptionId } = parse(DASHBOARD_EVENTS['devices:unsubscribe'], message);
        const subscription = subscriptions.get(subscriptionId);
        if (subscription !== undefined) parts.feed.remove(subscription);
        subscriptions.delete(subscriptionId);
        return { ok: true };
      },
      'eventlogs:query': async (message: unknown) =>
        queries.query(parse(DASHBOARD_EVENTS['eventlogs:query'], message)),
      'eventlogs:tail': async (message: unknown) =>
        queries.tail(parse(DASHBOARD_EVENTS['eventlogs:tail'], message)),
      async 'eventlogs:cancel'(message: unknown) {
        queries.cancel(parse(DASHBOARD_EVENTS['eventlogs:cancel'], message).queryId);
        return { ok: true };
      },
      'jobs:subscribe': async (message: unknown) =>
        jobs.subscribe(parse(DASHBOARD_EVENTS['jobs:subscribe'], message)),
      async 'jobs:unsubscribe'(message: unknown) {
        await jobs.unsubscribe(parse(DASHBOARD_EVENTS['jobs:unsubscribe'], message));
        return { ok: true };
      },
    };

    socket.onAny((event: string, ...args: unknown[]) => {
      const last = args.at(-1);
      const answer = typeof last === 'function' ? (last as (value: unknown) => void) : () => {};
      if (!Object.hasOwn(handle, event)) {
        return answer(errorAck(new AppError('not_found', 'There is no such event.')));
      }
      handle[event as keyof typeof handle](args[0]).then(answer, (error: unknown) => {
        if (!(error instanceof AppError)) {
          parts.log.error({ err: error, socketEvent: event }, 'hub.dashboard_event_failed');
        }
        answer(errorAck(error));
      });
    });
  });

  return {
    update: (rooms, job) => void namespace.to(rooms).emit('job:update', job),
    output: (rooms, output) => void namespace.to(rooms).emit('job:output', output),
  };
}

const roomMember = (socket: DashboardSocket) => ({
  caller: () => socket.data.caller,
  join: (rooms: string[]) => socket.join(rooms),
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
    caller: () => socket.data.caller,
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

async function stillTheSame(socket: DashboardSocket, people: People, trust: ProxyTrust): Promise<boolean> {
  const { token, caller } = socket.data;
  try {
    const now = await people.authenticate(token, clientOf(socket, trust));
    return rights(now) === rights(caller);
  } catch (error) {
    if (error instanceof AppError && error.code === 'unavailable') return true;
    if (error instanceof AppError) return false;
    throw error;
  }
}

function rights(caller: Caller): string {
  const { scope, partnerId, orgAccess, orgIds, roleId, permissions } = caller;
  return JSON.stringify([scope, partnerId, orgAccess, [...orgIds].sort(), roleId, [...permissions].sort()]);
}

function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new AppError(
    'validation_failed',
    `${issue?.path.join('.') || 'payload'}: ${issue?.message ?? 'not valid'}`,
  );
}

function liveFilters(live: LiveFilters | undefined): LiveFilters {
  if (live === undefined) throw new AppError('unavailable', 'Filters are not followed here.');
  return live;
}

function errorAck(error: unknown): ErrorAck {
  const known =
    error instanceof AppError ? error : new AppError('internal', 'Something went wrong on the server.');
  const { wireCode: code, message, details } = known;
  return { ok: false, error: { code, message, ...(details === undefined ? {} : { details }) } };
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
