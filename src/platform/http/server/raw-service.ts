import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import type { ClientInfo } from '../../context.ts';
import type { Logger } from '../../logger.ts';
import { requestState } from '../request-state.ts';

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
