import { io, type Socket } from 'socket.io-client';
import {
  HUB_PATH,
  type DevicesDelta,
  type DevicesSnapshot,
  type HubState,
} from '../../src/protocol/index.ts';
import type { TestApp } from './test-app.ts';

/** A person's client on the dashboard namespace, which keeps the deltas it gets. */
export interface DashboardClient {
  socket: Socket;
  deltas: DevicesDelta[];
  /** Whether the server has reached the others, as it has said. */
  states: boolean[];
  send(event: string, payload?: unknown): Promise<any>; // oxlint-disable-line typescript/no-explicit-any -- whatever the server answers
  subscribe(filter?: object): Promise<DevicesSnapshot>;
  close(): void;
}

export async function connectDashboard(
  app: Pick<TestApp, 'url'>,
  token: string,
  connection: { ca?: string; localAddress?: string; extraHeaders?: Record<string, string> } = {},
): Promise<DashboardClient> {
  const socket = io(`${app.url}/dashboard`, {
    path: HUB_PATH,
    transports: ['websocket'],
    reconnection: false,
    forceNew: true,
    auth: { token },
    ...connection,
  });
  const deltas: DevicesDelta[] = [];
  socket.on('devices:delta', (delta: DevicesDelta) => deltas.push(delta));
  const states: boolean[] = [];
  socket.on('hub:state', ({ isWhole }: HubState) => states.push(isWhole));
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('connect_error', (error) => {
      socket.close();
      reject(error);
    });
  });
  const send = (event: string, payload?: unknown) => socket.timeout(30_000).emitWithAck(event, payload);
  return {
    socket,
    deltas,
    states,
    send,
    subscribe: (filter = {}) => send('devices:subscribe', filter),
    close: () => void socket.disconnect(),
  };
}
