import { timingSafeEqual } from 'node:crypto';
import { type Request, type RequestHandler, type Response, Router } from 'express';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Metrics } from '../metrics.ts';
import { AppError } from '../errors.ts';
import type { Mac } from '../secrets/tokens.ts';
import { bearerToken } from './authentication.ts';
import { contains, peerAddress, type ProxyTrust } from './client-address.ts';
import { requestState } from './request-state.ts';

function send<S extends z.ZodType>(response: Response, schema: S, answer: z.input<S>): void {
  response.json(schema.parse(answer));
}

/** How the server sees a request, for the operator who asks if the proxy in front of it is set up well. */
export const SelfCheck = z.object({
  /** The address at the other end of the connection. */
  peer: z.string(),
  peerIsProxy: z.boolean().describe('The peer is one of TRUSTED_PROXY_CIDRS.'),
  client: z.string().describe('The address that limits, allowlists and the audit trail use.'),
  unreadable: z
    .object({ header: z.string(), value: z.string() })
    .nullable()
    .describe('The header in which the proxy names its client in a form that is no address.'),
  forwardedFor: z.string().nullable(),
  forwardedProto: z.string().nullable(),
  via: z.string().nullable(),
  host: z.string().nullable(),
});
export type SelfCheck = z.infer<typeof SelfCheck>;

/** A token of a self-check is not valid for anything else. */
export const SELF_CHECK_PURPOSE = 'self-check of the operator';
/** The machine of the operator may have another time. */
const SELF_CHECK_SECONDS = 300;

export const selfCheckToken = (mac: Mac, at = clock.now()): string => {
  const seconds = String(Math.floor(at / 1000));
  return `${seconds}.${mac.sign(seconds)}`;
};

function isSelfCheckToken(mac: Mac, token: string): boolean {
  const [seconds = '', signature = ''] = token.split('.');
  const isRecent = Math.abs(clock.now() / 1000 - Number(seconds)) < SELF_CHECK_SECONDS;
  return isRecent && mac.isSignatureOf(seconds, signature);
}

/** Only for those who have the keys of the installation: to all others the path does not exist. */
export function selfCheckRoute(mac: Mac, trust: ProxyTrust): Router {
  const router = Router();
  router.get('/health/self-check', (request, response, next) => {
    if (!isSelfCheckToken(mac, bearerToken(request) ?? '')) return next();
    requestState(request).route = '/health/self-check';
    const peer = peerAddress(request.socket);
    return send(response, SelfCheck, {
      peer,
      peerIsProxy: trust.proxies !== undefined && contains(trust.proxies, peer),
      client: requestState(request).client.ip,
      unreadable: requestState(request).client.unreadable ?? null,
      forwardedFor: request.get('x-forwarded-for') ?? null,
      forwardedProto: request.get('x-forwarded-proto') ?? null,
      via: request.get('via') ?? null,
      host: request.get('host') ?? null,
    });
  });
  return router;
}

/**
 * An answer is meant for its caller at that moment, so no browser and no proxy keeps it. A route can permit caching.
 */
export const neverStored: RequestHandler = (_request, response, next) => {
  response.setHeader('Cache-Control', 'no-store');
  next();
};

/** Prometheus text, for requests from this machine or with the token. */
export function metricsRoute(metrics: Metrics, token: string | undefined, trust: ProxyTrust): Router {
  const router = Router();
  router.get('/metrics', async (request, response) => {
    requestState(request).route = '/metrics';
    if (!isLocal(request, trust) && !(token !== undefined && sameText(bearerToken(request) ?? '', token))) {
      throw new AppError(
        'forbidden',
        'Metrics are read without a proxy from the machine of the server, or with METRICS_TOKEN as bearer token.',
      );
    }
    response.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  });
  return router;
}

const FORWARDING_HEADER = /^(forwarded|via|x-real-ip|cf-connecting-ip|true-client-ip|x-forwarded-.+)$/;

/** From loopback, and not through a proxy there, from which all clients would seem to be local. */
function isLocal({ socket, headers }: Request, { proxies }: ProxyTrust): boolean {
  const peer = peerAddress(socket);
  if (peer !== '::1' && !peer.startsWith('127.')) return false;
  if (proxies !== undefined && contains(proxies, peer)) return false;
  return !Object.keys(headers).some((name) => FORWARDING_HEADER.test(name));
}

function sameText(given: string, expected: string): boolean {
  const a = Buffer.from(given);
  const b = Buffer.from(expected);
  return a.length === b.length && timingSafeEqual(a, b);
}
