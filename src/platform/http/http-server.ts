import { randomUUID } from 'node:crypto';
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { clock, type Timer } from '../../clock.ts';
import { AppError } from '../errors.ts';
import { bodyOfError } from './error-body.ts';
import type { RequestHandler } from 'express';
import type { ClientInfo } from '../context.ts';
import type { Logger } from '../logger.ts';
import { requestState } from './request-state.ts';

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

/** The server below Express: how long it waits for a request, and how it answers malformed ones. */

export interface HttpPatience {
  /** For all headers of a request. */
  headersMs: number;
  /** For the whole request: at the body limit of 2 MB, a client of 20 kB a second is in time. */
  requestMs: number;
  checkEveryMs: number;
}

/**
 * How long an idle connection is kept. Longer than the 60 s of the usual proxies and the 90 s of programs in Go, such as
 * restic: whichever side closes first, the other may be sending a request at that moment.
 */
const KEEP_ALIVE_MS = 125_000;

const PATIENCE: HttpPatience = { headersMs: 20_000, requestMs: 120_000, checkEveryMs: 5000 };

export function createHttpServer({ headersMs, requestMs, checkEveryMs }: HttpPatience = PATIENCE): Server {
  const server = createServer({
    headersTimeout: headersMs,
    // It cannot be lifted for a single request, as the limit below can.
    requestTimeout: 0,
    connectionsCheckingInterval: checkEveryMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
  });
  const responses = new WeakMap<Duplex, ServerResponse>();
  server.on('request', (request, response) => {
    responses.set(request.socket, response);
    if (hasBody(request)) limitRequest(request, response, requestMs);
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const response = responses.get(socket);
    const isAnswering = response?.headersSent === true && !response.writableFinished;
    if (!socket.writable || isAnswering || error.code === 'ECONNRESET') socket.destroy();
    else refuse(socket, refusalOf(error.code));
  });
  return server;
}

const hasBody = ({ headers }: IncomingMessage) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

const requestLimits = new WeakMap<IncomingMessage, Timer>();

function limitRequest(request: IncomingMessage, response: ServerResponse, requestMs: number): void {
  const { socket } = request;
  const limit = clock.setTimeout(() => {
    if (request.complete) return;
    if (response.headersSent) socket.destroy();
    else refuse(socket, refusalOf('ERR_HTTP_REQUEST_TIMEOUT'));
  }, requestMs);
  requestLimits.set(request, limit);
  const end = () => {
    clock.clear(limit);
    socket.off('close', end);
  };
  request.once('end', end);
  // Not that of the request: one that was answered before its body had come emits neither, if the connection ends then.
  socket.once('close', end);
}

/**
 * Takes the limit of the time for the whole request away. It is for large bodies of clients that have shown who they
 * are; the caller has to end a request whose client sends nothing any more.
 */
export function liftRequestLimit(request: IncomingMessage): void {
  clock.clear(requestLimits.get(request));
}

function refusalOf(code: string | undefined): AppError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new AppError('headers_too_large', 'The headers of the request are too large.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new AppError('request_timeout', 'The request did not arrive in time.');
    default:
      return new AppError('validation_failed', 'This is not a valid HTTP request.');
  }
}

/** Without Express, which never saw the request. */
function refuse(socket: Duplex, error: AppError): void {
  const body = JSON.stringify(bodyOfError(error, randomUUID()));
  const head = [
    `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

/** The start failed at the address to listen on, and at nothing else. */
export class ListenError extends Error {
  readonly code: string | undefined;
  readonly host: string;
  readonly port: number;

  constructor({ host, port }: Address, cause: NodeJS.ErrnoException) {
    super(cause.message, { cause });
    this.name = 'ListenError';
    this.code = cause.code;
    this.host = host;
    this.port = port;
  }
}

interface Address {
  host: string;
  port: number;
}

/**
 * Connections that may wait to be accepted, as far as `net.core.somaxconn` allows. Past it the system drops them without
 * a word and tries again after seconds: a fleet that comes back must not do that to the people behind it.
 */
const BACKLOG = 16_384;

/** Returns the URL by which this machine reaches the server. Throws a `ListenError`. */
export async function listen(server: Server, { host, port }: Address): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException) => reject(new ListenError({ host, port }, error));
    server.once('error', failed);
    server.listen({ port, host, backlog: BACKLOG }, () => {
      server.off('error', failed);
      resolve();
    });
  });
  const { address, family, port: taken } = server.address() as AddressInfo;
  const shown = address === '0.0.0.0' || address === '::' ? '127.0.0.1' : address;
  return `http://${family === 'IPv6' && shown.includes(':') ? `[${shown}]` : shown}:${taken}`;
}

/** One request to a service that speaks a protocol of others, and therefore has no rows in the route table. */
export interface RawExchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** Below the path of the service, as it was sent: nothing is decoded. */
  path: string;
  client: ClientInfo;
  requestId: string;
  log: Logger;
  /** Aborted when the client goes away before it has its answer. */
  signal: AbortSignal;
}

/** Answers the request, or throws an `AppError`, which is answered as everywhere. */
export type RawService = (exchange: RawExchange) => Promise<void>;

/** @param route  the name that its requests have in metrics */
export function rawService(route: string, service: RawService): RequestHandler {
  return async (request, response) => {
    const state = requestState(request);
    state.route = route;
    const gone = new AbortController();
    response.once('close', () => {
      if (!response.writableFinished) gone.abort();
    });
    const { client, requestId, log } = state;
    const exchange = { request, response, path: request.url, client, requestId, log, signal: gone.signal };
    await service(exchange);
  };
}
