import type { PublicContext } from '../../../platform/context.ts';
import { hashPassword, verifyPassword } from '../../../platform/secrets/passwords.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { type AccountEnding, joinAsNewUser, openInvitation } from '../../users/index.ts';
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
 * Ends with an ordinary sign-in. The user of an existing account proves it with the password, and the second factor where
 * there is one: the inviter knows a link as well and must not get into the account with it.
 */
export async function acceptInvitation(
  ctx: PublicContext,
  { token, password }: AcceptInvitation,
  { auth, ending }: AcceptanceParts,
) {
  const { email, account } = await ctx.withSystem('read an invitation', (tx) => openInvitation(tx, token));
  const isNewUser =
    account === undefined || (account.isClaimable && !(await verifyPassword(account.passwordHash, password)));
  if (!isNewUser) return auth.login(ctx, { email, password }, tokenHash(token));
  assertStrong(password, 'password');
  const passwordHash = await hashPassword(password);
  await ctx.withSystem('accept an invitation', (tx) =>
    joinAsNewUser(tx, ctx, { token, passwordHash }, ending),
  );
  return auth.login(ctx, { email, password });
}
