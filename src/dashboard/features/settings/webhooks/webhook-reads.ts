/** What is read again after a change of a webhook. */
export const WEBHOOK_READS = [
  'GET /webhooks',
  'GET /webhooks/{id}',
  'GET /webhooks/{id}/deliveries',
] as const;
