import { expiredRows, type RetentionRule } from '../../platform/db/retention/retention-rule.ts';

/** For so many days an ended session can still be looked into, for instance after a theft of its refresh token. */
const ENDED_SESSION_DAYS = 30;

const sessionEnded = (alias: string, days: string) =>
  `least(${alias}.revoked_at, ${alias}.expires_at) < now() - make_interval(days => ${days})`;

/** Tokens before their sessions: a session may have hundreds, which would all go in the transaction of the session. */
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
