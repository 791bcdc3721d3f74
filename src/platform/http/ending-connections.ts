import type { Server } from 'node:http';

/** How often connections are closed that have become idle. */
const LOOK_MS = 50;
/** Requests that take longer than this are cut off. */
const PATIENCE_MS = 5000;

/** Ends the connections of an HTTP server whose clients would keep them for the next request. */
export class EndingConnections {
  readonly #server: Server;
  #isEnding = false;

  constructor(server: Server) {
    this.#server = server;
    server.prependListener('request', (_request, response) => {
      if (this.#isEnding) response.setHeader('Connection', 'close');
    });
  }

  /** From now on each answer is the last one of its connection. */
  begin(): void {
    this.#isEnding = true;
  }

  /** Takes no new connection, and resolves when all are closed. Those that are not closed in time are cut off. */
  async end(patienceMs = PATIENCE_MS): Promise<void> {
    this.begin();
    const look = setInterval(() => this.#server.closeIdleConnections(), LOOK_MS);
    const cutOff = setTimeout(() => this.#server.closeAllConnections(), patienceMs);
    try {
      await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    } finally {
      clearInterval(look);
      clearTimeout(cutOff);
    }
  }
}
