import { expiredRows, type RetentionRule } from '../../platform/db/retention/retention-rule.ts';

export const ssoRetention: readonly RetentionRule[] = [
  expiredRows('sso_sessions', 'id', 0),
  expiredRows('sso_exchange_codes', 'code_hash', 0),
  {
    table: 'saml_used_assertions',
    key: ['provider_id', 'assertion_hash'],
    days: 0,
    isOver: (days) => `old.expires_at < now() - make_interval(days => ${days})`,
  },
];
