import type { Db } from '../../platform/db/pool.ts';
import { bounded, byRules, cascade } from '../../platform/db/retention/retention-rule.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';
import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import type { Sealer } from '../../platform/secrets/sealed.ts';
import { defineFeature } from '../feature.ts';
import { deliveryRoutes } from './deliveries/delivery.routes.ts';
import { webhookRetention } from './retention.ts';
import { type DispatcherTiming, WebhookDispatcher } from './sending/dispatcher.ts';
import { webhookRoutes, type WebhookRouteParts } from './subscriptions/webhook.routes.ts';
import { WEBHOOKS_MAX } from './subscriptions/webhook.service.ts';

export type { DispatcherTiming } from './sending/dispatcher.ts';
export { webhookTestLimit } from './subscriptions/test-webhook.ts';
export { SEALED_WEBHOOK_SECRETS } from './requests/signing-secret.ts';

interface WorkerParts {
  /** Of background work, so that requests and devices do not wait for its connections. */
  backgroundDb: Db;
  webhookFetch: GuardedFetch;
  secrets: Sealer;
  log: Logger;
  metrics: Metrics;
  webhookTiming?: Partial<DispatcherTiming> | undefined;
}

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
  tables: [
    bounded('webhooks', `an organization or partner has at most ${WEBHOOKS_MAX}`),
    ...byRules(webhookRetention),
    cascade('webhook_deliveries', 'webhook_events'),
  ],
});
