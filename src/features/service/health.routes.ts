import { clock } from '../../clock.ts';
import { Document } from '../../platform/http/browser-answer.ts';
import { type AnyRoute, route } from '../../platform/http/route.ts';
import { Health, Liveness, Readiness } from './health.schema.ts';
import { type Check, sharedProbe } from './readiness.ts';
import type { ServiceLimits } from './service-limits.ts';

export interface HealthParts {
  version: string;
  readinessChecks: Record<string, Check>;
  isDraining: () => boolean;
  serviceLimits: ServiceLimits;
}

/** Health for balancers and people: alive, ready, and what is not. Open to everyone, so it names no detail. */
export function healthRoutes(parts: HealthParts): AnyRoute[] {
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
        const isReady = !isDraining() && Object.values(checks).every((state) => state !== 'failed');
        if (isReady) return { status: 'ready' as const, checks };
        reply.header('Retry-After', '1');
        const answer: Readiness = { status: 'not_ready', checks };
        return new Document('json', JSON.stringify(answer), 503);
      },
    }),
  ];
}
