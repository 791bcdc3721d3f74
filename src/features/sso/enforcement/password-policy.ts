import { AppError } from '../../../platform/errors.ts';
import type { PasswordPolicy } from '../../auth/index.ts';
import { loginUrlOf } from '../providers/login-url.ts';
import { type BreakGlassParts, recordBreakGlassUse } from './break-glass-use.ts';
import { providersGoverning } from './governs.queries.ts';

/**
 * Refuses passwords of people whom an enforced identity provider governs, except its break-glass people. If several
 * enforced providers govern a person, one of them has to name the person.
 */
export function createPasswordPolicy({
  baseUrl,
  ...parts
}: BreakGlassParts & {
  /** The public address of this server, without a slash at the end. */
  baseUrl: () => string;
}): PasswordPolicy {
  return {
    async decide(tx, userId) {
      const governing = await providersGoverning(tx, userId);
      const [first] = governing;
      if (first === undefined) return { allowed: true };
      const naming = governing.find(({ breakGlassUserIds }) => breakGlassUserIds.includes(userId));
      if (naming === undefined) {
        const refusal = new AppError(
          'sso_required',
          `Your account requires single sign-on. Sign in with ${first.name}.`,
          { details: { loginUrl: `${baseUrl()}${loginUrlOf(first)}` } },
        );
        return { allowed: false, refusal };
      }
      return {
        allowed: true,
        recordUse: (ctx, caller) => recordBreakGlassUse(tx, ctx, caller, naming, parts),
      };
    },
  };
}
