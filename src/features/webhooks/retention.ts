import type { RetentionRule } from '../../platform/db/retention/retention-rule.ts';

/** Events that nobody waits for any more go with the log of their deliveries: replays reach back as far as this. */
export const webhookRetention: readonly RetentionRule[] = [
  {
    table: 'webhook_events',
    key: ['id'],
    days: 14,
    isOver: (days) => `old.created_at < now() - make_interval(days => ${days})`,
    // The deliveries of each go with it.
    atOnce: 1000,
  },
];
