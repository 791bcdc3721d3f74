/** The queries to read again after a change of a channel or a policy. */

export const CHANNEL_READS = [
  'GET /notification-channels',
  'GET /notification-policies',
  'GET /notifications',
] as const;
export const POLICY_READS = ['GET /notification-policies'] as const;
