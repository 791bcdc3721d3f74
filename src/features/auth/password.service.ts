import { randomBytes } from 'node:crypto';
import type { DetachedContext, PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { Mail, Mailer } from '../../platform/mail/mailer.ts';
import { hashPassword, verifyPassword } from '../../platform/secrets/passwords.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { endSessionsOf, findUserByEmail, openInvitation, takeInvitation, User } from '../users/index.ts';
import type { AcceptInvitation, PasswordChange, PasswordReset } from './auth.schema.ts';
import type { SignInLimits } from './sign-in-limits.ts';
import type { AuthService } from './auth.service.ts';
import type { SignInTrail } from './sign-in-trail.ts';
import { passwordFault } from './password-rules.ts';

export interface PasswordParts {
  auth: Pick<AuthService, 'login'>;
  limits: Pick<SignInLimits, 'beforeMail' | 'ownSecrets'>;
  mailer: Mailer;
  trail: Pick<SignInTrail, 'passwordChanged' | 'committed'>;
  /** Where people reach this server, without a slash at the end. */
  baseUrl: () => string;
}

const fieldFault = (field: string, message: string) =>
  new AppError('validation_failed', message, { details: [{ path: `body.${field}`, message }] });

function assertStrong(password: string, field: string): void {
  const fault = passwordFault(password);
  if (fault !== undefined) throw fieldFault(field, fault);
}

/** What was begun with the password of before, or to replace it, ends with it. */
async function forgetOpenLinks(tx: Tx, userId: string): Promise<void> {
  await tx('password_resets').where({ user_id: userId }).delete();
  await tx('mfa_challenges').where({ user_id: userId }).delete();
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
  await limits.beforeMail(email, ctx.client.ip);
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

export async function resetPassword(
  ctx: PublicContext,
  { token, password }: PasswordReset,
  { mailer, trail }: Pick<PasswordParts, 'mailer' | 'trail'>,
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
    const [person] = await User.query(tx)
      .where({ id: userId, status: 'active' })
      .patch({ passwordHash })
      .returning('*');
    if (person === undefined) throw deadLink();
    await forgetOpenLinks(tx, userId);
    await endSessionsOf(tx, userId, 'password_reset');
    await trail.passwordChanged(tx, ctx, userId, 'mail');
    return person;
  });
  trail.committed();
  const text = [
    `Hello ${name},`,
    'The password of your Muster account has just been set anew by a link that was sent to this address. You are signed out everywhere.',
    'API keys that you made go on working. Look through them, and revoke any that you do not know.',
    'If it was not you who set the password, tell your administrator at once.',
  ].join('\n\n');
  mailer.post({ to: email, subject: 'Your password for Muster was set anew', text });
  return { success: true };
}

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

/**
 * Ends in an ordinary sign-in. Who has a password already proves it: the inviter knows the link too, and must not
 * come into an account by it.
 */
export async function acceptInvitation(
  ctx: PublicContext,
  { token, password }: AcceptInvitation,
  { auth }: PasswordParts,
) {
  const { email, passwordHash: present } = await ctx.withSystem('read an invitation', (tx) =>
    openInvitation(tx, token),
  );
  const isNew = present === null;
  if (isNew) assertStrong(password, 'password');
  const accept = async (passwordHash?: string) =>
    ctx.withSystem('accept an invitation', (tx) => takeInvitation(tx, token, passwordHash));
  if (isNew) {
    await accept(await hashPassword(password));
    return auth.login(ctx, { email, password });
  }
  const signedIn = await auth.login(ctx, { email, password });
  await accept();
  return signedIn;
}
