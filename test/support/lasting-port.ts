import { once } from 'node:events';
import { createServer } from 'node:net';
import { allowPort } from './runner/rules.ts';

/** Below the ports that systems give to outgoing connections, and above those of well-known servers. */
const FIRST = 15_000;
const PER_PROCESS = 280;
const PROCESSES = 60;

let next = 0;

/**
 * A port for a server that goes away and comes back under its address. While it is away, no outgoing connection can be
 * given its port: not that of somebody else, and not that of a client that looks for the server, which would be connected
 * to itself. Test processes that run at once have ports of their own.
 */
export async function lastingPort(): Promise<number> {
  const start = FIRST + (process.pid % PROCESSES) * PER_PROCESS;
  for (let tries = 0; tries < PER_PROCESS; tries++) {
    const port = start + (next++ % PER_PROCESS);
    if (await isFree(port)) return port;
  }
  throw new Error(`None of the ports from ${start} is free.`);
}

async function isFree(port: number): Promise<boolean> {
  allowPort(port);
  const server = createServer();
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
