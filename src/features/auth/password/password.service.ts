import { randomBytes } from 'node:crypto';
import type { DetachedContext, PublicContext } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import type { Mail, Mailer } from '../../../platform/mail/mailer.ts';
import { hashPassword, verifyPassword } from '../../../platform/secrets/passwords.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import {
  type AccountEnding,
  endCredentials,
  endSessionsOf,
  endUnprovedHolding,
  findUserByEmail,
  forgetOpenLinks,
  User,
} from '../../users/index.ts';
import type { PasswordChange, PasswordReset } from '../sign-in/sign-in.schema.ts';
import type { SignInLimits } from '../sign-in-limits.ts';
import type { SignInTrail } from '../sign-in-trail.ts';
import { passwordFault } from './password-rules.ts';

export interface PasswordParts {
  limits: Pick<SignInLimits, 'beforeMail' | 'ownSecrets'>;
  mailer: Mailer;
  trail: Pick<SignInTrail, 'passwordChanged' | 'committed'>;
  ending: Pick<AccountEnding, 'revokeKeysOf'>;
  /** Where people reach this server, without a slash at the end. */
  baseUrl: () => string;
}

const fieldFault = (field: string, message: string) =>
  new AppError('validation_failed', message, { details: [{ path: `body.${field}`, message }] });

export function assertStrong(password: string, field: string): void {
  const fault = passwordFault(password);
  if (fault !== undefined) throw fieldFault(field, fault);
}

/** The session that asks stays, all others end. Hashing takes a while, so it happens outside of any transaction. */
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
    throw fieldFault('currentPassword', 'The current password is wrong.');
  }
  const passwordHash = await hashPassword(input.newPassword);
  await ctx.withTenant(async ({ tx }) => {
    // Only where it is still the password that was checked: of two changes at once, one counts.
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

/** Answers the same at once, whoever is asked for: the look-up and the mail come after. */
export async function forgotPassword(
  ctx: PublicContext,
  email: string,
  { mailer, baseUrl, limits }: PasswordParts,
): Promise<{ success: true }> {
  await limits.beforeMail(email, ctx.client);
  mailer.post(async (): Promise<Mail | undefined> => {
    const token = randomBytes(32).toString('base64url');
    const user = await ctx.withSystem('note a forgotten password', async (tx) => {
      const found = await findUserByEmail(tx, email);
      if (found?.status !== 'active') return undefined;
      await tx('password_resets').where({ user_id: found.id }).whereRaw('expires_at <= now()').delete();
      await tx('password_resets').insert({
        token_hash: tokenHash(token),
        user_id: found.id,
        expires_at: tx.raw(`now() + interval '1 hour'`),
      });
      return found;
    });
    if (user === undefined) return undefined;
    const text = [
      `Hello ${user.name},`,
      'Set a new password for Muster here:',
      `${baseUrl()}/reset-password#token=${token}`,
      'The link works once, for one hour. If you did not ask for it, do nothing: your password stays as it is.',
    ].join('\n\n');
    return { to: user.email, subject: 'A new password for Muster', text };
  });
  return { success: true };
}

const deadLink = () => fieldFault('token', 'This link is not valid any more. Ask for a new one.');

/**
 * Whoever has the link reads the mail of the address, and so owns the account. Whatever was opened with the password of
 * before ends: it may have been somebody else's.
 */
export async function resetPassword(
  ctx: PublicContext,
  { token, password }: PasswordReset,
  { mailer, trail, ending }: Pick<PasswordParts, 'mailer' | 'trail' | 'ending'>,
): Promise<{ success: true }> {
  assertStrong(password, 'password');
  const standing = { token_hash: tokenHash(token) };
  const known = await ctx.withSystem('look for a password reset', (tx) =>
    tx('password_resets').where(standing).whereRaw('expires_at > now()').pluck('user_id'),
  );
  if (known.length === 0) throw deadLink();
  const passwordHash = await hashPassword(password);
  const { email, name } = await ctx.withSystem('reset a password', async (tx) => {
    // Deleting is what uses it up: of two at once, one finds it gone.
    const [taken] = await tx('password_resets')
      .where(standing)
      .whereRaw('expires_at > now()')
      .delete()
      .returning<{ user_id: string }[]>('user_id');
    if (taken === undefined) throw deadLink();
    const { user_id: userId } = taken;
    const person = await User.query(tx).where({ id: userId, status: 'active' }).forUpdate().first();
    if (person === undefined) throw deadLink();
    if (person.emailVerifiedAt === null) await endUnprovedHolding(tx, userId);
    await endCredentials(tx, userId, 'password_reset', ending);
    await User.query(tx)
      .findById(userId)
      .patch({ passwordHash, emailVerifiedAt: person.emailVerifiedAt ?? new Date() });
    await trail.passwordChanged(tx, ctx, userId, 'mail');
    return person;
  });
  trail.committed();
  const text = [
    `Hello ${name},`,
    'The password of your Muster account has just been set anew by a link that was sent to this address. You are signed out everywhere.',
    'API keys that you made are revoked. Make new ones for the programs that used them.',
    'If it was not you who set the password, tell your administrator at once.',
  ].join('\n\n');
  mailer.post({ to: email, subject: 'Your password for Muster was set anew', text });
  return { success: true };
}
