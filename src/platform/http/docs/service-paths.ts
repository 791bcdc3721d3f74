import { z } from 'zod';

/** The heading of what the server says of itself, in the route table and beside it. */
export const SERVICE_TAG = {
  name: 'Service',
  description: 'Health, metrics and documents of the server itself.',
};

/** What is served beside the route table (SHAPES 2), because no client of the interface asks for it. */
export const METRICS_PATH = {
  path: '/metrics',
  summary: 'Read the metrics of this server',
  description:
    'In the text format of Prometheus. A request that came through a proxy, or from another machine, needs METRICS_TOKEN as bearer token.',
  answer: { description: 'Metrics.', media: 'text/plain', schema: z.string() },
};
