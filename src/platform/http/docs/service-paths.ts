import { z } from 'zod';
import { Health, Liveness, Readiness } from '../operations.ts';

/** What is served beside the route table (SHAPES 2): described here for the OpenAPI document. */
export interface ServicePath {
  path: string;
  /** Below which the path stands. */
  bases: readonly string[];
  summary: string;
  description?: string;
  /** `metrics`: from elsewhere than the server's own machine it needs METRICS_TOKEN. */
  access: 'public' | 'metrics';
  answers: Readonly<Record<number, { description: string; media: string; schema: z.ZodType }>>;
}

const BOTH = ['/', '/api/v1'];
const ROOT = ['/'];
const html = { description: 'A page.', media: 'text/html', schema: z.string() };
const json = (schema: z.ZodType, description = 'Done.') => ({
  description,
  media: 'application/json',
  schema,
});

export const SERVICE_PATHS: readonly ServicePath[] = [
  {
    path: '/health',
    bases: BOTH,
    summary: 'Read the release that runs, and for how long it has run',
    access: 'public',
    answers: { 200: json(Health) },
  },
  {
    path: '/health/live',
    bases: BOTH,
    summary: 'See whether the process is alive',
    access: 'public',
    answers: { 200: json(Liveness) },
  },
  {
    path: '/health/ready',
    bases: BOTH,
    summary: 'See whether the server can take requests',
    description: 'While it is stopping the answer is 503.',
    access: 'public',
    answers: { 200: json(Readiness), 503: json(Readiness, 'A check has failed, or the server is stopping.') },
  },
  {
    path: '/metrics',
    bases: ROOT,
    summary: 'Read the metrics of this server',
    description:
      'In the text format of Prometheus. A request that came through a proxy, or from another machine, needs METRICS_TOKEN as bearer token.',
    access: 'metrics',
    answers: { 200: { description: 'Metrics.', media: 'text/plain', schema: z.string() } },
  },
  {
    path: '/openapi.json',
    bases: ['/api/v1'],
    summary: 'Read this document',
    access: 'public',
    answers: { 200: json(z.record(z.string(), z.unknown())) },
  },
  {
    path: '/docs',
    bases: ROOT,
    summary: 'Open the reference of the REST interface',
    access: 'public',
    answers: { 200: html },
  },
  {
    path: '/docs/sockets',
    bases: ROOT,
    summary: 'Open the reference of the socket messages',
    access: 'public',
    answers: { 200: html },
  },
];
