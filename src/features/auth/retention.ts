import type { RetentionRule } from '../../platform/db/retention.ts';

/** For so many days an ended session can still be looked into, for instance after a theft of its refresh token. */
const ENDED_SESSION_DAYS = 30;
/** Links and challenges are of no use from the minute in which they expire. */
const EXPIRED_DAYS = 1;

const sessionEnded = (alias: string, days: string) =>
  `least(${alias}.revoked_at, ${alias}.expires_at) < now() - make_interval(days => ${days})`;
const expired = (days: string) => `old.expires_at < now() - make_interval(days => ${days})`;

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
  { table: 'password_resets', key: ['token_hash'], days: EXPIRED_DAYS, isOver: expired },
  { table: 'mfa_challenges', key: ['token_hash'], days: EXPIRED_DAYS, isOver: expired },
];
