import { z } from 'zod';
import { NoBody, Document, KeptDocument, madeOnce } from '../platform/http/file-answer.ts';
import {
  REFERENCE_ASSETS,
  referenceAsset,
  referencePage,
  referenceScript,
  socketsPage,
  socketsScript,
} from '../platform/http/docs-pages.ts';
import { type AnyRoute, route } from '../platform/http/route.ts';
import { SOCKET_REFERENCE } from '../protocol/index.ts';
import { clock, type Timer } from '../clock.ts';
import type { RateLimits } from '../platform/cluster/rate-limits.ts';
import { clientLimit } from '../platform/http/client-address.ts';
import { SERVICE_TAG } from '../platform/http/open-api.ts';
import { defineFeature } from './feature.ts';

interface DocumentParts {
  title: string;
  /** The OpenAPI document of the whole table. */
  openApi: () => object;
  serviceLimits: ServiceLimits;
}

/** The reference of the interfaces. Each document is made once and kept, because anyone may ask for it at any time. */
function documentRoutes({ title, openApi, serviceLimits }: DocumentParts): AnyRoute[] {
  const asset = new Map(REFERENCE_ASSETS.map((name) => [name, madeOnce(() => referenceAsset(name))]));
  const api = madeOnce(() => new KeptDocument('json', JSON.stringify(openApi())));
  const reference = madeOnce(() => referencePage(title));
  const script = madeOnce(() => referenceScript('/api/v1/openapi.json'));
  const sockets = madeOnce(() => socketsPage(title, SOCKET_REFERENCE));
  const search = madeOnce(() => socketsScript());
  const all = {
    method: 'get',
    access: 'public',
    before: serviceLimits.documents,
    errors: ['rate_limited'],
  } as const;
  const page = { ...all, bases: ['/'], response: NoBody, media: ['text/html'] } as const;
  return [
    route({
      ...all,
      path: '/openapi.json',
      summary: 'Read this document',
      response: z.record(z.string(), z.unknown()),
      handler: () => api(),
    }),
    route({
      ...page,
      path: '/docs',
      summary: 'Open the reference of the REST interface',
      handler: () => reference(),
    }),
    route({
      ...page,
      path: '/docs/sockets',
      summary: 'Open the reference of the socket messages',
      handler: () => sockets(),
    }),
    route({
      ...page,
      path: '/docs/start.js',
      summary: 'Load the script that starts the reference',
      media: ['text/javascript'],
      handler: () => script(),
    }),
    route({
      ...page,
      path: '/docs/sockets.js',
      summary: 'Load the search of the reference of the socket messages',
      media: ['text/javascript'],
      handler: () => search(),
    }),
    route({
      ...page,
      path: '/docs/assets/:name',
      summary: 'Load a file of the reference',
      params: z.object({ name: z.enum(REFERENCE_ASSETS) }),
      media: ['text/css', 'text/javascript', 'image/png'],
      handler: async ({ params: { name } }) => asset.get(name)?.() ?? referenceAsset(name),
    }),
  ];
}

interface HealthParts {
  version: string;
  readinessChecks: Record<string, Check>;
  isDraining: () => boolean;
  serviceLimits: ServiceLimits;
}

/** Health for balancers and people: alive, ready, and what is not. Open to everyone, so it names no detail. */
function healthRoutes(parts: HealthParts): AnyRoute[] {
  const { version, readinessChecks, isDraining, serviceLimits } = parts;
  const startedAt = clock.monotonic();
  const probe = sharedProbe(readinessChecks);
  const all = {
    method: 'get',
    bases: ['/', '/api/v1'],
    access: 'public',
    before: serviceLimits.health,
    errors: ['rate_limited'],
  } as const;
  return [
    route({
      ...all,
      path: '/health',
      summary: 'Read the release that runs, and for how long it has run',
      response: Health,
      handler: () => {
        const uptime = Math.round((clock.monotonic() - startedAt) / 1000);
        return { status: 'ok' as const, version, uptime };
      },
    }),
    route({
      ...all,
      path: '/health/live',
      summary: 'See whether the process is alive',
      response: Liveness,
      handler: () => ({ status: 'ok' as const }),
    }),
    route({
      ...all,
      path: '/health/ready',
      summary: 'See whether the server can take requests',
      description: 'While it is stopping the answer is 503.',
      response: Readiness,
      otherAnswers: {
        503: { description: 'A check has failed, or the server is stopping.', schema: Readiness },
      },
      handler: async ({ reply }) => {
        const checks = await probe();
        const isReady = !isDraining() && Object.values(checks).every((state) => !NOT_READY.includes(state));
        if (isReady) return { status: 'ready' as const, checks };
        reply.header('Retry-After', '1');
        const answer: Readiness = { status: 'not_ready', checks };
        return new Document('json', JSON.stringify(answer), 503);
      },
    }),
  ];
}

/** Load balancers and monitors ask from few addresses, each several times a second. */
const HEALTH = { points: 600, seconds: 10 };

/** A page takes six of these. */
const DOCUMENTS = { points: 300, seconds: 60 };

type ServiceLimits = ReturnType<typeof serviceLimits>;

/** @param limits  of this process: health is asked for while Redis is away, and must cost nearly nothing */
export const serviceLimits = (limits: RateLimits) => ({
  health: clientLimit(limits, 'health', HEALTH),
  documents: clientLimit(limits, 'documents', DOCUMENTS),
});

/**
 * Returns whether a part works; a part that this deployment does without is `not_configured`. A `spare` one is missed
 * but not needed: without it the node is `ready` all the same, and says `unavailable` of it.
 */
type Check = (() => Promise<boolean | CheckState>) | { spare: () => Promise<boolean> } | 'not_configured';

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
    const found = await Promise.race([check(), late]);
    return typeof found === 'string' ? found : found ? 'ok' : 'failed';
  } catch {
    // A failing check is the answer here; what failed is logged where it is used.
    return 'failed';
  } finally {
    clock.clear(timer);
  }
}

const CheckState = z.enum(['ok', 'failed', 'read_only', 'unavailable', 'not_configured']);
/** States of a check without which requests cannot be served. */
const NOT_READY: readonly CheckState[] = ['failed', 'read_only'];
type CheckState = z.infer<typeof CheckState>;

export const Health = z.object({
  status: z.literal('ok'),
  version: z.string(),
  uptime: z.number().int().describe('Seconds.'),
});

const Liveness = z.object({ status: z.literal('ok') });

const Readiness = z.object({
  status: z.enum(['ready', 'not_ready']),
  checks: z.record(z.string(), CheckState),
});
type Readiness = z.infer<typeof Readiness>;

export const feature = defineFeature({
  name: 'service',
  routes: (parts: HealthParts & DocumentParts) => [
    { ...SERVICE_TAG, routes: [...healthRoutes(parts), ...documentRoutes(parts)] },
  ],
});
