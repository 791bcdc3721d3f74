import { expiredRows, type RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** How long an expired invitation can still be seen and resent. */
const EXPIRED_INVITATION_DAYS = 30;

export const invitationRetention: readonly RetentionRule[] = [
  expiredRows('membership_invitations', 'id', EXPIRED_INVITATION_DAYS),
];
