import { expiredRows, type RetentionRule } from '../../platform/db/retention/retention-rule.ts';

/** How many days an ended session is kept for investigation, such as after a theft of its refresh token. */
const ENDED_SESSION_DAYS = 30;

const sessionEnded = (alias: string, days: string) =>
  `least(${alias}.revoked_at, ${alias}.expires_at) < now() - make_interval(days => ${days})`;

/** Tokens are removed before their sessions: a session may have hundreds, which would all be deleted in one transaction. */
export const authRetention: readonly RetentionRule[] = [
  {
    table: 'refresh_tokens',
    key: ['token_hash'],
    days: ENDED_SESSION_DAYS,
    from: 'sessions s join refresh_tokens old on old.session_id = s.id',
    isOver: (days) => sessionEnded('s', days),
  },
  {
    table: 'sessions',
    key: ['id'],
    days: ENDED_SESSION_DAYS,
    isOver: (days) => sessionEnded('old', days),
  },
  expiredRows('password_resets', 'token_hash'),
  expiredRows('mfa_challenges', 'token_hash'),
];
