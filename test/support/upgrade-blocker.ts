import { createServer, request } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { clock } from '../../src/clock.ts';

/** A device on the way to a server that lets HTTP pass, and does with upgrades what the test says. */
export interface UpgradeBlocker {
  url: string;
  /** A status to answer upgrades with, `cut` after they have succeeded, or `pass`. */
  upgrades: { status: number; headers?: Record<string, string> } | 'cut' | 'pass';
  /** The times of the upgrades, and of the heartbeats over HTTP, by the monotonic clock. */
  upgradesAt: number[];
  heartbeatsAt: number[];
  /** Answers heartbeats over HTTP in place of the server. */
  answer: { status: number; headers?: Record<string, string>; body?: unknown } | undefined;
  close(): Promise<void>;
}

export async function startUpgradeBlocker(target: string): Promise<UpgradeBlocker> {
  const { port } = new URL(target);
  const sockets = new Set<Duplex>();
  const server = createServer((incoming, response) => {
    if (incoming.url?.endsWith('/heartbeat') === true) {
      blocker.heartbeatsAt.push(clock.monotonic());
      if (blocker.answer !== undefined) {
        const { status, headers, body = { error: 'Answered by the test.' } } = blocker.answer;
        incoming.resume();
        response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body));
        return;
      }
    }
    const { url, method, headers } = incoming;
    const outgoing = request({ host: '127.0.0.1', port, path: url, method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    incoming.pipe(outgoing);
  });
  server.on('upgrade', ({ url, rawHeaders }, near: Duplex, head: Buffer) => {
    blocker.upgradesAt.push(clock.monotonic());
    sockets.add(near);
    near.on('error', () => near.destroy());
    const { upgrades } = blocker;
    if (typeof upgrades === 'object') {
      const lines = Object.entries(upgrades.headers ?? {}).map(([name, value]) => `${name}: ${value}\r\n`);
      near.end(`HTTP/1.1 ${upgrades.status} No\r\n${lines.join('')}content-length: 0\r\n\r\n`);
      return;
    }
    const far = connect(Number(port), '127.0.0.1', () => {
      const lines = rawHeaders.map((text, index) => (index % 2 === 0 ? `${text}: ` : `${text}\r\n`));
      far.write(`GET ${url} HTTP/1.1\r\n${lines.join('')}\r\n`);
      far.write(head);
      near.pipe(far);
      if (upgrades === 'pass') far.pipe(near);
      else {
        far.once('data', (accepted) => {
          near.write(accepted);
          near.destroy();
        });
      }
    });
    far.on('error', () => near.destroy());
    far.on('close', () => near.destroy());
    near.on('close', () => far.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const blocker: UpgradeBlocker = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    upgrades: { status: 403 },
    upgradesAt: [],
    heartbeatsAt: [],
    answer: undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
        for (const socket of sockets) socket.destroy();
      }),
  };
  return blocker;
}
