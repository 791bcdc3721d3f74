import { io, type Socket } from 'socket.io-client';
import { DevicesDelta, DevicesSnapshot, HUB_PATH } from '../../../src/protocol/index.ts';
import { FeedClient } from '../../support/feed-client.ts';

/** A person's list of devices, kept open as a browser keeps it: it comes back after each loss. */
export interface WatchingDashboard {
  name: string;
  /** The ids of devices that it shows as online, or nothing while it has no list. */
  online(): string[] | undefined;
  /** How often it has read the list anew. */
  lists(): number;
  /** What it was sent that it may not be sent. */
  faults(): string[];
  close(): void;
}

const AGAIN_MS = 500;
const CONNECT_MS = 10_000;
const ANSWER_MS = 10_000;

export function watchDevices(name: string, url: string, token: () => string): WatchingDashboard {
  let socket: Socket | undefined;
  let timer: NodeJS.Timeout | undefined;
  let list: FeedClient | undefined;
  let lists = 0;
  let isClosed = false;
  const faults: string[] = [];

  const again = (lost: Socket) => {
    if (lost !== socket) return;
    lost.removeAllListeners();
    lost.disconnect();
    socket = undefined;
    list = undefined;
    if (!isClosed) timer = setTimeout(connect, AGAIN_MS);
  };
  const connect = () => {
    const own = io(`${url}/dashboard`, {
      path: HUB_PATH,
      transports: ['websocket'],
      reconnection: false,
      forceNew: true,
      timeout: CONNECT_MS,
      auth: { token: token() },
    });
    socket = own;
    let subscriptionId = '';
    own.on('connect_error', () => again(own));
    own.on('disconnect', () => again(own));
    own.on('devices:ended', () => again(own));
    own.on('connect', () => {
      own.timeout(ANSWER_MS).emit('devices:subscribe', {}, (error: unknown, answer: unknown) => {
        const snapshot = DevicesSnapshot.safeParse(answer);
        if (error !== null || !snapshot.success) return again(own);
        subscriptionId = snapshot.data.subscriptionId;
        list = new FeedClient();
        list.start(snapshot.data.devices, snapshot.data);
        lists += 1;
      });
    });
    own.on('devices:delta', (message: unknown) => {
      const delta = DevicesDelta.parse(message);
      if (list === undefined || delta.subscriptionId !== subscriptionId) return;
      list.take(delta);
      const wrong = list.faults.at(-1);
      if (wrong === undefined) return;
      faults.push(`${name}: ${wrong}`);
      again(own);
    });
  };
  connect();
  return {
    name,
    online: () =>
      list === undefined
        ? undefined
        : [...list.devices.values()].filter(({ status }) => status === 'online').map(({ id }) => id),
    lists: () => lists,
    faults: () => faults,
    close() {
      isClosed = true;
      clearTimeout(timer);
      socket?.disconnect();
    },
  };
}
