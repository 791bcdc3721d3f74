import type { Caller } from './context.ts';
import { AppError } from './errors.ts';

/**
 * Throws `forbidden` for a user of a partner who does not reach all its organizations. Everything that changes a partner
 * as a whole calls this, because the change also counts in the organizations that the user does not reach
 * (test/contract/whole-partner.test.ts).
 * @param act  what is refused, such as `change the settings of the partner`
 */
export function assertActsForWholePartner(
  { scope, orgAccess }: Pick<Caller, 'scope' | 'orgAccess'>,
  act: string,
): void {
  if (scope === 'partner' && orgAccess !== 'all') {
    throw new AppError('forbidden', `Only users with access to all organizations can ${act}.`);
  }
}
