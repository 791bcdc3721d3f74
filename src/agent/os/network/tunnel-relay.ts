import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';

export interface TunnelRelay {
  /** The address of the relay as a proxy, with a password that only works while it runs. */
  address: string;
  close(): void;
}

/** Opens a connection to a host, by whatever way this machine takes. */
type OpenConnection = (host: string, port: number) => Promise<Duplex>;

const PASSWORD_BYTES = 24;

/**
 * A proxy on this machine, for a program that the agent starts: the program then takes the same way as the agent, and
 * does not learn the password of the proxy behind it, which would be visible in its environment.
 */
export async function startTunnelRelay(openConnection: OpenConnection): Promise<TunnelRelay> {
  const password = randomBytes(PASSWORD_BYTES).toString('hex');
  const expected = Buffer.from(`Basic ${Buffer.from(`relay:${password}`).toString('base64')}`);
  const sockets = new Set<Duplex>();
  const keep = (socket: Duplex, other: Duplex) => {
    sockets.add(socket);
    socket.on('error', () => other.destroy());
    socket.on('close', () => {
      sockets.delete(socket);
      other.destroy();
    });
  };
  const server = createServer((_request, response) => {
    response.writeHead(405).end();
  });
  server.on('connect', (request: IncomingMessage, near: Duplex, early: Buffer) => {
    near.on('error', () => near.destroy());
    const target = URL.parse(`https://${request.url ?? ''}`);
    if (target === null || !isEqual(request.headers['proxy-authorization'], expected)) {
      near.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      return;
    }
    const host = target.hostname.replace(/^\[|\]$/g, '');
    openConnection(host, Number(target.port) || 443).then(
      (far) => {
        keep(near, far);
        keep(far, near);
        near.write('HTTP/1.1 200 Connection established\r\n\r\n');
        far.write(early);
        near.pipe(far).pipe(near);
      },
      () => near.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  server.unref();
  return {
    address: `http://relay:${password}@127.0.0.1:${portOf(server.address())}`,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function isEqual(given: string | undefined, expected: Buffer): boolean {
  const bytes = Buffer.from(given ?? '');
  return bytes.length === expected.length && timingSafeEqual(bytes, expected);
}

function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === 'string') throw new Error('The relay has no port.');
  return address.port;
}
