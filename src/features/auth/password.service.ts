import { clock } from '../../../clock.ts';
import type { DetachedContext, PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Mailer } from '../../../platform/mail/mailer.ts';
import { hashPassword, verifyPassword } from '../../../platform/secrets/passwords.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import {
  type AccountEnding,
  endCredentials,
  endSessionsOf,
  forgetOpenLinks,
  removeUnverifiedSetup,
  User,
} from '../../users/index.ts';
import type { PasswordChange, PasswordReset as PasswordResetInput } from '../sign-in/sign-in.schema.ts';
import type { SignInLimits } from '../sign-in-limits.ts';
import type { SignInTrail } from '../sign-in-trail.ts';
import { PasswordReset } from './password-reset.model.ts';
import type { PasswordPolicy } from './password-policy.ts';
import { passwordFault } from './password-rules.ts';

export interface PasswordParts {
  limits: Pick<SignInLimits, 'beforeMail' | 'ownSecrets'>;
  jobs: Jobs;
  mailer: Mailer;
  trail: Pick<SignInTrail, 'passwordChanged' | 'committed'>;
  ending: Pick<AccountEnding, 'revokeKeysOf'>;
  passwordPolicy: PasswordPolicy;
}

const fieldFault = (field: string, message: string) =>
  new AppError('validation_failed', message, { details: [{ path: `body.${field}`, message }] });

export function assertStrong(password: string, field: string): void {
  const fault = passwordFault(password);
  if (fault !== undefined) throw fieldFault(field, fault);
}

/** Ends all other sessions of the user. Hashing takes time, so it happens outside any transaction. */
export async function changePassword(
  ctx: DetachedContext,
  input: PasswordChange,
  { limits: { ownSecrets }, trail }: Pick<PasswordParts, 'limits' | 'trail'>,
): Promise<{ success: true }> {
  const { userId, sessionId } = ctx.caller;
  assertStrong(input.newPassword, 'newPassword');
  await ownSecrets.take(userId);
  const user = await ctx.withTenant(({ tx }) => User.query(tx).findById(userId).throwIfNotFound());
  if (!(await verifyPassword(user.passwordHash, input.currentPassword))) {
    throw fieldFault('currentPassword', 'The current password is incorrect.');
  }
  const passwordHash = await hashPassword(input.newPassword);
  await ctx.withTenant(async ({ tx }) => {
    // Only if it is still the password that was checked: of two changes at once, one succeeds.
    const changed = await User.query(tx)
      .where({ id: userId, password_hash: user.passwordHash })
      .patch({ passwordHash });
    if (changed === 0) throw new AppError('conflict', 'The password has just been changed elsewhere.');
    await forgetOpenLinks(tx, userId);
    await endSessionsOf(tx, userId, 'password_changed', sessionId ?? undefined);
    await trail.passwordChanged(tx, ctx, userId, 'password');
  });
  trail.committed();
  await ownSecrets.forget(userId);
  return { success: true };
}

const invalidLink = () => fieldFault('token', 'This link is no longer valid. Request a new one.');

/**
 * The link proves that its user reads the mail of the address, and so owns the account. Everything that was opened with the
 * earlier password ends, because somebody else may have known it.
 */
export async function resetPassword(
  ctx: PublicContext,
  { token, password }: PasswordResetInput,
  {
    mailer,
    trail,
    ending,
    passwordPolicy,
  }: Pick<PasswordParts, 'mailer' | 'trail' | 'ending' | 'passwordPolicy'>,
): Promise<{ success: true }> {
  assertStrong(password, 'password');
  const open = (tx: Tx) => PasswordReset.query(tx).findById(tokenHash(token)).whereRaw('expires_at > now()');
  const known = await ctx.withSystem('find a password reset', open);
  if (known === undefined) throw invalidLink();
  const passwordHash = await hashPassword(password);
  await ctx.withSystem('reset a password', async (tx) => {
    // Deleting it uses it up: of two requests at once, one finds nothing to delete.
    if ((await open(tx).delete()) === 0) throw invalidLink();
    const { userId } = known;
    const user = await User.query(tx).where({ id: userId, status: 'active' }).forUpdate().first();
    if (user === undefined) throw invalidLink();
    const decision = await passwordPolicy.decide(tx, userId);
    if (!decision.allowed) throw decision.refusal;
    if (user.emailVerifiedAt === null) await removeUnverifiedSetup(tx, userId);
    await endCredentials(tx, userId, 'password_reset', ending);
    await User.query(tx)
      .findById(userId)
      .patch({ passwordHash, emailVerifiedAt: user.emailVerifiedAt ?? clock.date() });
    await trail.passwordChanged(tx, ctx, userId, 'mail');
    const text = [
      `Hello ${user.name},`,
      'The password of your Muster account has just been reset with a link sent to this address. You have been signed out everywhere.',
      'Your API keys have been revoked. Create new ones for the programs that used them.',
      'If you did not reset the password, contact your administrator at once.',
    ].join('\n\n');
    await mailer.send(tx, { to: user.email, subject: 'Your Muster password was reset', text });
  });
  trail.committed();
  return { success: true };
}
