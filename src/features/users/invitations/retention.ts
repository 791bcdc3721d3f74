import { expiredRows, type RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** How long an invitation that has expired can still be seen, and be sent again. */
const EXPIRED_INVITATION_DAYS = 30;

export const invitationRetention: readonly RetentionRule[] = [
  expiredRows('membership_invitations', 'id', EXPIRED_INVITATION_DAYS),
];
