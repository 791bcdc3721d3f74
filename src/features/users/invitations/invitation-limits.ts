import { addressKey } from '../../../email-address.ts';
import type { RateLimits } from '../../../platform/cluster/rate-limits.ts';
import type { Caller } from '../../../platform/context.ts';

/** Mails that one user can send. */
const BY_INVITER = { points: 100, seconds: 3600 };
/** Mails of one tenant to one address. Other tenants are not counted, because they could block this one's invitations. */
const TO_ADDRESS = { points: 5, seconds: 3600 };

export type InvitationLimits = ReturnType<typeof invitationLimits>;

/** An invitation is a mail to any address, so without limits a tenant could flood any mailbox. */
export function invitationLimits(limits: RateLimits) {
  const byInviter = limits.limiter('invite-by', BY_INVITER);
  const toAddress = limits.limiter('invite-to', TO_ADDRESS);
  return {
    /** Throws `rate_limited`. Before the transaction, which must not wait for Redis. */
    async beforeInvitation({ userId, partnerId, orgId }: Caller, email: string): Promise<void> {
      await byInviter.take(userId);
      await toAddress.take(`${partnerId ?? orgId ?? 'system'} ${addressKey(email)}`);
    },

    async beforeResending({ userId }: Caller, invitationId: string): Promise<void> {
      await byInviter.take(userId);
      await toAddress.take(`again ${invitationId}`);
    },
  };
}
