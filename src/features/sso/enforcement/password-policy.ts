import { AppError } from '../../../platform/errors.ts';
import type { PasswordPolicy } from '../../auth/index.ts';
import { loginUrlOf } from '../providers/login-url.ts';
import { type BreakGlassParts, recordBreakGlassUse } from './break-glass-use.ts';
import { providersGoverning } from './governs.queries.ts';

/**
 * People whom an enforced identity provider governs do not use passwords, except those whom the provider names for the case
 * that it fails. Where several are enforced for the same people, being named by one of them is enough.
 */
export function createPasswordPolicy({
  baseUrl,
  ...parts
}: BreakGlassParts & {
  /** Where people reach this server, without a slash at the end. */
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
