import type { Db } from '../../platform/db/pool.ts';
import { bounded } from '../../platform/db/retention-rule.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';
import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { defineFeature } from '../feature.ts';
import { deliveryRoutes, webhookRoutes, type WebhookRouteParts } from './webhook.routes.ts';
import { endWebhookEventsRegularly } from './end-webhook-events.job.ts';
import { type DispatcherTiming, WebhookDispatcher } from './webhook.work.ts';
import { WEBHOOKS_MAX } from './webhook.service.ts';

export type { DispatcherTiming } from './webhook.work.ts';
export { webhookTestLimit } from './webhook.service.ts';
export { SEALED_WEBHOOK_SECRETS, signedHeaders } from './signing.ts';
export { excerptOf, retryAfterMs } from './post.ts';

interface WorkerParts {
  /** The pool of background work, so that requests and devices do not wait for its connections. */
  backgroundDb: Db;
  webhookFetch: GuardedFetch;
  secrets: Encryptor;
  log: Logger;
  metrics: Metrics;
  webhookTiming?: Partial<DispatcherTiming> | undefined;
}

/** Whole partitions are dropped. */
const byPartition = (table: string) =>
  ({ table, ends: 'retention', worker: 'the background job webhooks.end' }) as const;

export const feature = defineFeature({
  name: 'webhooks',
  routes: (parts: WebhookRouteParts) => [webhookRoutes(parts), deliveryRoutes],
  workers: ({
    backgroundDb: db,
    webhookFetch: outbound,
    secrets,
    log,
    metrics,
    webhookTiming,
  }: WorkerParts) => {
    const attempts = metrics.counter(
      'muster_webhook_attempts_total',
      'Attempts of this server to deliver events to webhooks, by outcome.',
      ['outcome'],
    );
    const onAttempt = (outcome: string) => attempts.inc({ outcome });
    return {
      webhooks: new WebhookDispatcher({ db, outbound, secrets, log, onAttempt }, webhookTiming),
    };
  },
  jobs: endWebhookEventsRegularly,
  tables: [
    bounded('webhooks', `an organization or partner has at most ${WEBHOOKS_MAX}`),
    byPartition('webhook_events'),
    byPartition('webhook_deliveries'),
  ],
});
