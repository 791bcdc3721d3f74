import { randomUUID } from 'node:crypto';
import type { Request, RequestHandler } from 'express';
import { clock } from '../../clock.ts';
import type { AgentCaller, Caller, ClientInfo } from '../context.ts';
import type { Logger } from '../logger.ts';
import type { Metrics } from '../metrics.ts';
import { clientAddress, type ProxyTrust } from './client-address.ts';

/** The state of a request that the first step of the pipeline makes for all that follow. */
export interface RequestState {
  requestId: string;
  log: Logger;
  client: ClientInfo;
  /** By `clock.monotonic()`. */
  arrivedAt: number;
  /** The pattern of the route that took it, for metrics; never the raw path. */
  route: string;
  /** Set once the caller is known; stays unset on public routes, and on those of agents. */
  caller?: Caller;
  /** Set on the routes of agents, once it is known whose token was sent. */
  agent?: AgentCaller;
}

const states = new WeakMap<object, RequestState>();

export function requestState(request: Request): RequestState {
  const state = states.get(request);
  if (state === undefined) throw new Error('the request did not pass through beginRequest');
  return state;
}

const REQUEST_ID = /^[\w.:-]{1,100}$/;

/** First step: request id in and out, log, metrics. */
export function beginRequest(log: Logger, metrics: Metrics, trust: ProxyTrust): RequestHandler {
  const warn = proxyWarnings(log);
  return (request, response, next) => {
    const startedAt = clock.monotonic();
    const offered = request.get('x-request-id');
    const requestId = offered !== undefined && REQUEST_ID.test(offered) ? offered : randomUUID();
    const state: RequestState = {
      requestId,
      arrivedAt: startedAt,
      log,
      client: {
        ...clientAddress({ peer: request.socket.remoteAddress, headers: request.headers }, trust),
        userAgent: request.get('user-agent')?.slice(0, 500) ?? null,
      },
      route: 'unmatched',
    };
    warn(state.client);
    states.set(request, state);
    response.setHeader('X-Request-Id', requestId);
    response.on('close', () => {
      const seconds = (clock.monotonic() - startedAt) / 1000;
      const status = response.writableFinished ? String(response.statusCode) : 'aborted';
      metrics.httpRequests.inc({ method: request.method, route: state.route, status });
      metrics.httpDuration.observe({ method: request.method, route: state.route }, seconds);
      log.debug(
        { requestId, method: request.method, route: state.route, status, ms: Math.round(seconds * 1000) },
        'http.answered',
      );
    });
    next();
  };
}

/**
 * Logs once each: that there seems to be an unconfigured proxy in front of this server, which hides its clients, and that a
 * configured one names them in a form that is no address.
 */
function proxyWarnings(log: Logger): (client: ClientInfo) => void {
  let [hasWarnedOfProxy, hasWarnedOfHop] = [false, false];
  return ({ ip, unnamedProxy, unreadable }) => {
    if (unnamedProxy !== undefined && !hasWarnedOfProxy) {
      hasWarnedOfProxy = true;
      log.warn({ peer: ip, set: 'TRUST_PROXY_HEADERS, TRUSTED_PROXY_CIDRS' }, 'http.proxy_not_configured');
    }
    if (unreadable !== undefined && !hasWarnedOfHop) {
      hasWarnedOfHop = true;
      log.warn({ peer: ip, ...unreadable }, 'http.client_address_unreadable');
    }
  };
}
