import { timingSafeEqual } from 'node:crypto';
import { type Request, type RequestHandler, type Response, Router } from 'express';
import { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import type { Metrics } from '../metrics.ts';
import { AppError } from '../errors.ts';
import type { Mac } from '../secrets/mac.ts';
import { bearerToken } from './authentication.ts';
import { contains, peerAddress, type ProxyTrust } from './client-address.ts';
import { requestState } from './request-state.ts';

/**
 * Answers whether a part works; a part that this deployment does without is `not_configured`. A `spare` one is missed
 * but not needed: without it the node is `ready` all the same, and says `unavailable` of it.
 */
export type Check = (() => Promise<boolean>) | { spare: () => Promise<boolean> } | 'not_configured';
const CheckState = z.enum(['ok', 'failed', 'unavailable', 'not_configured']);
type CheckState = z.infer<typeof CheckState>;

export const Health = z.object({
  status: z.literal('ok'),
  version: z.string(),
  uptime: z.number().int().describe('Seconds.'),
});
export const Liveness = z.object({ status: z.literal('ok') });
export const Readiness = z.object({
  status: z.enum(['ready', 'not_ready']),
  checks: z.record(z.string(), CheckState),
});

/** Health for balancers and people: alive, ready, and what is not. Open to everyone, so it names no detail. */
export function healthRoutes(
  version: string,
  checks: Record<string, Check>,
  isDraining: () => boolean,
): Router {
  const router = Router();
  const startedAt = clock.monotonic();
  const probe = sharedProbe(checks);

  router.get('/health', (request, response) => {
    requestState(request).route = '/health';
    const uptime = Math.round((clock.monotonic() - startedAt) / 1000);
    send(response, Health, { status: 'ok', version, uptime });
  });
  router.get('/health/live', (request, response) => {
    requestState(request).route = '/health/live';
    send(response, Liveness, { status: 'ok' });
  });
  router.get('/health/ready', async (request, response) => {
    requestState(request).route = '/health/ready';
    const results = await probe();
    const ready = !isDraining() && Object.values(results).every((state) => state !== 'failed');
    if (!ready) response.setHeader('Retry-After', '1');
    response.status(ready ? 200 : 503);
    send(response, Readiness, { status: ready ? 'ready' : 'not_ready', checks: results });
  });
  return router;
}

function send<S extends z.ZodType>(response: Response, schema: S, answer: z.input<S>): void {
  response.json(schema.parse(answer));
}

const PROBE_MS = 3000;
const PROBE_KEPT_MS = 1000;

/** One probe at a time however many ask, each check bounded: readiness must not add to an overload. */
function sharedProbe(checks: Record<string, Check>): () => Promise<Record<string, CheckState>> {
  let current: Promise<Record<string, CheckState>> | undefined;
  const run = async () => {
    const entries = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => [name, await stateOf(check)] as const),
    );
    clock.setTimeout(() => (current = undefined), PROBE_KEPT_MS).unref();
    return Object.fromEntries(entries);
  };
  return async () => (current ??= run());
}

async function stateOf(check: Check): Promise<CheckState> {
  if (check === 'not_configured') return check;
  if ('spare' in check) return (await stateOf(check.spare)) === 'ok' ? 'ok' : 'unavailable';
  let timer: Timer | undefined;
  const late = new Promise<false>((resolve) => {
    timer = clock.setTimeout(() => resolve(false), PROBE_MS);
  });
  try {
    return (await Promise.race([check(), late])) ? 'ok' : 'failed';
  } catch {
    // A failing check is the answer here; what failed is logged where it is used.
    return 'failed';
  } finally {
    clock.clear(timer);
  }
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

/** What the token of a self-check signs is worth nothing anywhere else. */
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

/** Answers are for who asked, in that moment: no browser and no proxy keeps one. A route may say otherwise of its own. */
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

/** From loopback, and not through a proxy there, from which everybody would seem to be local. */
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
