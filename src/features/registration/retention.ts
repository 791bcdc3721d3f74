import { expiredRows, type RetentionRule } from '../../platform/db/retention/retention-rule.ts';

/** A link that nobody has followed is of no use any more. */
export const registrationRetention: readonly RetentionRule[] = [expiredRows('registrations', 'token_hash')];
