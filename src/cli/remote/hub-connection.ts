import { io, type Socket } from 'socket.io-client';
import { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import {
  DASHBOARD_NAMESPACE,
  type DashboardToHub,
  ErrorAck,
  HUB_PATH,
  type HubToDashboard,
} from '../../protocol/index.ts';
import { reasonOf, Refused } from './api.ts';
import { EXIT, RemoteFailure, type Profile } from './profiles.ts';
import type { CommandIo } from '../io.ts';

/** The first Ctrl+C ends the work cleanly, the second ends the program. */
export async function interruptible<T>(
  io: CommandIo,
  work: (interrupted: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const stopListening = io.onInterrupt(() => controller.abort());
  try {
    return await work(controller.signal);
  } finally {
    stopListening();
  }
}

/** Resolves when the signal is aborted. */
export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** Resolves after this time, which does not keep the program from ending. */
export const unheld = (ms: number): Promise<void> =>
  new Promise((resolve) => void clock.setTimeout(resolve, ms).unref());

type Event = keyof DashboardToHub;
type Message<E extends Event> = Parameters<DashboardToHub[E]>[0];

/** The same connection to the server that dashboards use. */
export interface HubConnection {
  /** Returns the acknowledgement of the server; a refusal is thrown as a `RemoteFailure`. */
  ask<E extends Event, S extends z.ZodType>(event: E, message: Message<E>, answer: S): Promise<z.infer<S>>;
  /** Calls the consumer with each message of this kind that matches the schema. */
  on<S extends z.ZodType>(event: keyof HubToDashboard, schema: S, take: (message: z.infer<S>) => void): void;
  /** Ends a live query on the devices. Its end event arrives as usual. */
  cancelQuery(queryId: string): void;
  /** Rejects when the connection is lost, and never resolves. */
  readonly lost: Promise<never>;
  close(): void;
}

const CONNECT_MS = 20_000;
const ACK_MS = 45_000;
const Refusal = z.object({ data: z.object({ code: z.string(), message: z.string() }) });

export async function connectToHub({ server, key }: Profile): Promise<HubConnection> {
  const socket: Socket = io(new URL(DASHBOARD_NAMESPACE, server).href, {
    path: HUB_PATH,
    transports: ['websocket'],
    auth: { token: key },
    reconnection: false,
    forceNew: true,
    timeout: CONNECT_MS,
  });
  await connected(socket, server);
  const lost = new Promise<never>((_resolve, reject) => {
    socket.once('disconnect', (reason) => {
      // This also ends calls that still wait for an acknowledgement.
      const message =
        reason === 'io server disconnect'
          ? 'The server has ended the connection. The key may have been revoked, or have lost its rights.'
          : 'The connection to the server was lost.';
      reject(new RemoteFailure(EXIT.unreachable, message));
    });
  });
  // Usually nothing waits for it, because most commands end before.
  lost.catch(() => {});

  return {
    async ask(event, message, answer) {
      const acknowledged = socket.timeout(ACK_MS).emitWithAck(event, message) as Promise<unknown>;
      const given = await Promise.race([acknowledged, lost]).catch((error: unknown) => {
        if (error instanceof RemoteFailure) throw error;
        throw new RemoteFailure(EXIT.unreachable, 'The server does not answer.');
      });
      const refused = ErrorAck.safeParse(given);
      if (refused.success) {
        const { code, message: sentence } = refused.data.error;
        throw new Refused(code, sentence, []);
      }
      const parsed = answer.safeParse(given);
      if (parsed.success) return parsed.data;
      throw new RemoteFailure(
        EXIT.failed,
        'The answer of the server is not understood. Is this command as new as the server?',
      );
    },
    on(event, schema, take) {
      socket.on(event, (message: unknown) => {
        const parsed = schema.safeParse(message);
        // A newer server may send unknown messages; the others are still useful.
        if (parsed.success) take(parsed.data);
      });
    },
    cancelQuery: (queryId) => void socket.emit('eventlogs:cancel', { queryId }),
    lost,
    close: () => void socket.disconnect(),
  };
}

/** Whether the server may be reached again later. */
export const isLoss = (error: unknown): error is RemoteFailure =>
  error instanceof RemoteFailure && error.exit === EXIT.unreachable;

/** Connects again after a loss. Returns `undefined` if the user has interrupted it. */
export async function connectAgain(
  profile: Profile,
  patienceMs: number,
  interrupted: AbortSignal,
): Promise<HubConnection | undefined> {
  const until = clock.monotonic() + patienceMs;
  for (let pauseMs = 500; ; pauseMs = Math.min(pauseMs * 2, 10_000)) {
    // Random delay: other watchers have lost the same server, and must not all return at once.
    await clock.sleep(pauseMs * (0.5 + Math.random() / 2), { signal: interrupted }).catch(() => {});
    if (interrupted.aborted) return undefined;
    try {
      return await connectToHub(profile);
    } catch (error) {
      if (!isLoss(error) || clock.monotonic() > until) throw error;
    }
  }
}

async function connected(socket: Socket, server: string): Promise<void> {
  let late: Timer | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      const away = (reason: string) =>
        reject(new RemoteFailure(EXIT.unreachable, `${server} does not answer: ${reason}.`));
      socket.once('connect', resolve);
      socket.once('connect_error', (error) => {
        const refusal = Refusal.safeParse(error);
        if (!refusal.success) return away(reasonOf(error));
        const { code, message } = refusal.data.data;
        reject(new Refused(code, message, []));
      });
      // The connection may be lost, or be to another server, before the server has answered on it.
      socket.once('disconnect', away);
      late = clock.setTimeout(() => away('it has not answered in time'), CONNECT_MS);
    });
  } catch (error) {
    socket.close();
    throw error;
  } finally {
    clock.clear(late);
    socket.removeAllListeners();
  }
}
