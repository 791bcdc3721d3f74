import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { AppError } from '../../../platform/errors.ts';
import type { SessionCaller } from '../sessions/session.service.ts';

export type PasswordDecision =
  | { allowed: false; refusal: AppError }
  | {
      allowed: true;
      /** Set if the use of the password is an exception. Call it in the transaction that opens the session. */
      recordUse?: (ctx: PublicContext, caller: SessionCaller) => Promise<void>;
    };

/**
 * Decides whether people may use their password. Single sign-on implements it, because this feature must not import it.
 */
export interface PasswordPolicy {
  /**
   * Call it after the password or the link was checked, so that it does not reveal accounts. Call it in the transaction
   * that acts on the decision, because single sign-on may be enforced at any moment.
   */
  decide(tx: Tx, userId: string): Promise<PasswordDecision>;
}
