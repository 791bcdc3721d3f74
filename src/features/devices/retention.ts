import type { RetentionRule } from '../../platform/db/retention/retention-rule.ts';

const REVOKED_DAYS = 30;

export const deviceRetention: readonly RetentionRule[] = [
  {
    table: 'agent_credentials',
    key: ['token_hash'],
    days: REVOKED_DAYS,
    isOver: (days) => `old.revoked_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];
