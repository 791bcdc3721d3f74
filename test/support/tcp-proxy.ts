import { connect, createServer, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';

/** A stretch of network that can fail: what is behind it goes away and comes back, under one address. */
export interface TcpProxy {
  port: number;
  /** Cuts every connection and refuses new ones. */
  cut(): Promise<void>;
  mend(): Promise<void>;
  /** Connections stay open, and nothing gets through them any more. */
  freeze(): void;
}

export async function startTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        open.delete(socket);
        other.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  return {
    port,
    cut: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
    mend: () => listen(port),
    freeze() {
      for (const socket of open) socket.unpipe().pause();
    },
  };
}
