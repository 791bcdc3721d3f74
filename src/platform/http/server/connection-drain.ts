import type { Server } from 'node:http';
import { clock } from '../../../clock.ts';

/** How often connections that have become idle are closed. */
const CLOSE_IDLE_EVERY_MS = 50;
/** Requests that take longer than this are cut off. */
const PATIENCE_MS = 5000;

/** Closes the keep-alive connections of an HTTP server once their current request has been answered. */
export class ConnectionDrain {
  readonly #server: Server;
  #isDraining = false;

  constructor(server: Server) {
    this.#server = server;
    server.prependListener('request', (_request, response) => {
      if (this.#isDraining) response.setHeader('Connection', 'close');
    });
  }

  /** From now on each answer is the last one of its connection. */
  begin(): void {
    this.#isDraining = true;
  }

  /** Accepts no new connection, and resolves when all are closed. Those that are not closed in time are cut off. */
  async end(patienceMs = PATIENCE_MS): Promise<void> {
    this.begin();
    const closeIdle = clock.setInterval(() => this.#server.closeIdleConnections(), CLOSE_IDLE_EVERY_MS);
    const cutOff = clock.setTimeout(() => this.#server.closeAllConnections(), patienceMs);
    try {
      await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    } finally {
      clock.clear(closeIdle);
      clock.clear(cutOff);
    }
  }
}
