import { queryOptions } from '@tanstack/react-query';
import { z } from 'zod';
import { ApiError } from '../../api/index.ts';

const Readiness = z.object({
  status: z.enum(['ready', 'not_ready']),
  checks: z.record(z.string(), z.enum(['ok', 'failed', 'unavailable', 'not_configured'])),
});
export type Readiness = z.output<typeof Readiness>;

const REFRESH_MS = 10_000;

/** A server that is not ready says so with status 503, and names what is missing: also that is an answer. */
export const readinessQuery = queryOptions({
  queryKey: ['readiness'],
  queryFn: async ({ signal }): Promise<Readiness> => {
    const response = await fetch('/api/v1/health/ready', { signal }).catch((error: unknown) => {
      if (signal.aborted) throw error;
      throw new ApiError(0, { error: 'The server cannot be reached.', code: 'UNREACHABLE' });
    });
    const body: unknown = await response.json().catch(() => undefined);
    const readiness = Readiness.safeParse(body);
    if (readiness.success) return readiness.data;
    const error = `The server answered with status ${response.status} and no state.`;
    throw new ApiError(response.status, { error, code: 'UNEXPECTED' });
  },
  refetchInterval: REFRESH_MS,
});
