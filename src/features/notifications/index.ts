import type { Db } from '../../platform/db/pool.ts';
import { bounded, byRules, cascade } from '../../platform/db/retention-rule.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { defineFeature } from '../feature.ts';
import type { WorkEngine } from '../work/index.ts';
import { channelRoutes, type ChannelRouteParts } from './channel.routes.ts';
import { CHANNELS_MAX } from './channel.service.ts';
import { addDeliveries } from './delivery.work.ts';
import { notificationRetention } from './notification.model.ts';
import { notificationRoutes } from './notification.routes.ts';
import { NotificationRounds, type NotificationTiming } from './notification.work.ts';
import { policyRoutes } from './policy.routes.ts';
import type { OwnSettingsParts } from './own-settings.service.ts';
import { POLICIES_MAX } from './policy.schema.ts';
import type { SendParts } from './send.ts';

// For other mails, which quote names as well.
export { escapedHtml } from './payloads/mail.ts';
export { cut, oneLine } from './payloads/message.ts';

export type { NotificationTiming } from './notification.work.ts';
export { addressCodeLimits } from './own-settings.service.ts';
export { channelTestLimit, SEALED_CHANNEL_SECRET } from './channel.service.ts';

interface WorkerParts extends SendParts {
  /** The pool of background work, so that requests and devices do not wait for its connections. */
  backgroundDb: Db;
  work: WorkEngine;
  secrets: Encryptor;
  log: Logger;
  metrics: Metrics;
  notificationTiming?: Partial<NotificationTiming> | undefined;
}

export const feature = defineFeature({
  name: 'notifications',
  routes: (parts: ChannelRouteParts & OwnSettingsParts) => [
    channelRoutes(parts),
    policyRoutes,
    notificationRoutes(parts),
  ],
  workers: ({ backgroundDb: db, work, log, metrics, notificationTiming, ...parts }: WorkerParts) => {
    const outcomes = metrics.counter(
      'muster_notifications_total',
      'Attempts of this server to tell somebody about alerts, by outcome.',
      ['outcome'],
    );
    addDeliveries(work, { ...parts, db, onOutcome: (outcome) => outcomes.inc({ outcome }) });
    return { 'notification rounds': new NotificationRounds({ db, work, log }, notificationTiming) };
  },
  tables: [
    bounded('notification_channels', `an organization or partner has at most ${CHANNELS_MAX}`),
    bounded('notification_policies', `an organization or partner has at most ${POLICIES_MAX}`),
    bounded('notification_outbox', 'the next round takes its rows'),
    ...byRules(notificationRetention),
    cascade('notification_group_alerts', 'notification_groups'),
    cascade('notification_settings', 'users'),
  ],
});
