import type { PublicContext } from '../../../platform/context.ts';
import { hashPassword, verifyPassword } from '../../../platform/secrets/passwords.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { type AccountEnding, joinAsNewHolder, openInvitation } from '../../users/index.ts';
import type { AcceptInvitation } from './sign-in.schema.ts';
import type { AuthService } from './sign-in.service.ts';
import { assertStrong } from '../password/password.service.ts';

export async function previewInvitation(ctx: PublicContext, token: string) {
  const { email, name, partnerName, orgName } = await ctx.withSystem('show an invitation', (tx) =>
    openInvitation(tx, token),
  );
  return {
    email,
    name,
    ...(partnerName === null ? {} : { partnerName }),
    ...(orgName === null ? {} : { orgName }),
  };
}

export interface AcceptanceParts {
  auth: Pick<AuthService, 'login'>;
  ending: AccountEnding;
}

/**
 * Ends in an ordinary sign-in. The holder of an account proves it, with the second factor too where there is one: the
 * inviter knows a link as well, and must not come into an account by it.
 */
export async function acceptInvitation(
  ctx: PublicContext,
  { token, password }: AcceptInvitation,
  { auth, ending }: AcceptanceParts,
) {
  const { email, account } = await ctx.withSystem('read an invitation', (tx) => openInvitation(tx, token));
  const becomesHolder =
    account === undefined || (account.yields && !(await verifyPassword(account.passwordHash, password)));
  if (!becomesHolder) return auth.login(ctx, { email, password }, tokenHash(token));
  assertStrong(password, 'password');
  const passwordHash = await hashPassword(password);
  await ctx.withSystem('accept an invitation', (tx) =>
    joinAsNewHolder(tx, ctx, { token, passwordHash }, ending),
  );
  return auth.login(ctx, { email, password });
}
