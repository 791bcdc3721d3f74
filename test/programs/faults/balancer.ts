import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** The one address of agents: each connection goes to one of the servers that are believed to be well. */
export interface Balancer {
  url: string;
  close(): Promise<void>;
}

/** @param ports  where a newcomer may be led now */
export async function openBalancer(ports: () => number[]): Promise<Balancer> {
  const sockets = new Set<Socket>();
  let turn = 0;
  const server = createServer((near) => {
    const open = ports();
    const port = open[turn++ % open.length];
    if (port === undefined) return near.destroy();
    const far = connect({ host: '127.0.0.1', port });
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      // An end that fails closes as well, which is what counts.
      socket
        .on('error', () => {})
        .once('close', () => {
          sockets.delete(socket);
          other.destroy();
        });
    }
    near.pipe(far).pipe(near);
    return undefined;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
