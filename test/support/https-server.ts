import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type Agent, createServer, request } from 'node:https';
import type { IncomingHttpHeaders, RequestListener } from 'node:http';
import { lastingPort } from './lasting-port.ts';

const pem = (name: string) => readFileSync(new URL(`certificates/${name}.pem`, import.meta.url), 'utf8');

/** A certificate that has expired, and signs itself: with it among the authorities, nothing else is wrong with it. */
export const EXPIRED_CERTIFICATE = pem('expired');

/** Who signed the certificate of `startHttpsServer`: what clients have to trust. */
export const TEST_AUTHORITY = pem('authority');

export interface HttpsServer {
  port: number;
  /** Closes all connections, and listens no more. */
  stop(): Promise<void>;
  /** Listens again, on the same port. */
  start(): Promise<void>;
  /** Answers new connections with this certificate. */
  useCertificate(name: 'certificate' | 'expired'): void;
}

/** An HTTPS server on 127.0.0.1 with a certificate for that address, `localhost`, `idp.test` and names below it. */
export async function startHttpsServer(listener: RequestListener): Promise<HttpsServer> {
  const server = createServer({ key: pem('key'), cert: pem('certificate') }, listener);
  const port = await lastingPort();
  const listen = async () => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    // A test that fails before it stops the server must not keep its process alive.
    server.unref();
  };
  await listen();
  return {
    port,
    async stop() {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
    start: listen,
    useCertificate: (name) => server.setSecureContext({ key: pem('key'), cert: pem(name) }),
  };
}

/** One GET that follows no redirect. Any name leads to 127.0.0.1. Without an agent, its connection is its own. */
export function getOverHttps(
  url: string | URL,
  headers: Record<string, string> = {},
  agent: Agent | false = false,
): Promise<{ status: number; headers: IncomingHttpHeaders; body: string }> {
  const { hostname, port, pathname, search, host } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: '127.0.0.1',
        port,
        servername: /^[\d.]+$/.test(hostname) ? '' : hostname,
        path: pathname + search,
        headers: { ...headers, host },
        ca: TEST_AUTHORITY,
        agent,
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString('utf8'),
          }),
        );
      },
    );
    sent.on('error', reject);
    sent.end();
  });
}
