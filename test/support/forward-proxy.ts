import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect, type AddressInfo, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { readFileSync } from 'node:fs';

/** What a proxy does with the next CONNECT, in place of what it should do. */
type Misbehavior =
  /** Answers with this status. */
  | { status: number; body?: string }
  /** Writes this instead of an answer, again and again. */
  | { flood: string }
  /** Says that the connection is open, and sends this as if it came from the server. */
  | { early: string }
  | 'silent'
  /** Opens the connection, and loses everything that comes through it. */
  | 'lose';

/** An HTTP proxy on 127.0.0.1: CONNECT, and plain requests in absolute form. Any name leads to this machine. */
export interface ForwardProxy {
  /** Without user and password. */
  url: string;
  port: number;
  /** What passed, such as `CONNECT idp.test:443` or `POST http://idp.test/x`, with refused ones. */
  requests: string[];
  misbehavior: Misbehavior | undefined;
  /** How many bytes it could write of a flood. */
  flooded: number;
  /** Ends every connection, as a proxy that is restarted. */
  cut(): void;
  close(): Promise<void>;
}

const FLOOD_MAX = 100_000_000;
const pem = (name: string) => readFileSync(new URL(`certificates/${name}.pem`, import.meta.url), 'utf8');

export async function startForwardProxy(
  options: { user?: string; password?: string; tls?: boolean } = {},
): Promise<ForwardProxy> {
  const { user, password, tls = false } = options;
  const expected =
    user === undefined ? undefined : `Basic ${Buffer.from(`${user}:${password ?? ''}`).toString('base64')}`;
  const sockets = new Set<Duplex>();
  const keep = <T extends Duplex>(socket: T): T => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
    return socket;
  };
  const isAllowed = ({ headers }: IncomingMessage) =>
    expected === undefined || headers['proxy-authorization'] === expected;
  const listener = (incoming: IncomingMessage, response: ServerResponse): void => {
    proxy.requests.push(`${incoming.method} ${incoming.url}`);
    const target = URL.parse(incoming.url ?? '');
    if (!isAllowed(incoming) || target === null) {
      response.writeHead(target === null ? 400 : 407).end('{"error":"of the proxy"}');
      return;
    }
    const { 'proxy-authorization': _secret, ...headers } = incoming.headers;
    const outgoing = request(
      {
        host: '127.0.0.1',
        port: target.port,
        path: target.pathname + target.search,
        method: incoming.method,
        headers,
      },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    outgoing.on('error', () => response.writeHead(502).end());
    incoming.pipe(outgoing);
  };
  const server: Server = tls
    ? createTlsServer({ key: pem('key'), cert: pem('certificate') }, listener)
    : createServer(listener);
  server.on('connection', keep);
  server.on('connect', (incoming: IncomingMessage, near: Duplex, head: Buffer) => {
    proxy.requests.push(`CONNECT ${incoming.url}`);
    near.on('error', () => near.destroy());
    const { misbehavior } = proxy;
    if (misbehavior === 'silent') return;
    if (typeof misbehavior === 'object') return misbehave(near, misbehavior);
    if (!isAllowed(incoming)) return misbehave(near, { status: 407 });
    const port = Number(incoming.url?.split(':').at(-1));
    const far: Socket = keep(
      connect(port, '127.0.0.1', () => {
        near.write('HTTP/1.1 200 Connection established\r\n\r\n');
        far.write(head);
        if (misbehavior === 'lose') near.resume();
        else near.pipe(far).pipe(near);
      }),
    );
    far.on('error', () => near.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'));
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
  });
  function misbehave(near: Duplex, how: Exclude<Misbehavior, string>): void {
    if ('status' in how) {
      const { status, body = '' } = how;
      near.end(`HTTP/1.1 ${status} No\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    } else if ('early' in how) near.write(`HTTP/1.1 200 OK\r\n\r\n${how.early}`);
    else {
      const more = () => {
        let isWritable = true;
        while (isWritable && !near.destroyed && proxy.flooded < FLOOD_MAX) {
          proxy.flooded += how.flood.length;
          isWritable = near.write(how.flood);
        }
        if (!isWritable) near.once('drain', more);
      };
      more();
    }
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  const proxy: ForwardProxy = {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    port,
    requests: [],
    misbehavior: undefined,
    flooded: 0,
    cut,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        cut();
      }),
  };
  return proxy;
}
