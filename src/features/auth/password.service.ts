import { clock } from '../../clock.ts';
import type { DetachedContext, PublicContext } from '../../platform/context.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Mailer } from '../../platform/mail.ts';
import { hashPassword, verifyPassword } from '../../platform/secrets/passwords.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import {
  type AccountEnding,
  endCredentials,
  endSessionsOf,
  deleteOpenLinks,
  removeUnverifiedSetup,
  User,
  findUserByEmail,
} from '../users/index.ts';
import type { PasswordChange, PasswordReset as PasswordResetInput } from './auth.schema.ts';
import type { SignInLimits } from './sign-in-limits.ts';
import type { SignInTrail } from './sign-in-trail.ts';
import { PasswordReset } from './auth.model.ts';
import type { SessionCaller } from './session.service.ts';
import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import { z } from 'zod';
import type { Db } from '../../platform/db/pool.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import { DASHBOARD_PAGES } from '../dashboard-pages.ts';

const RULES: readonly [test: (password: string) => boolean, message: string][] = [
  [(password) => password.length >= 8, 'The password must have at least 8 characters.'],
  [(password) => password.length <= 128, 'The password must have at most 128 characters.'],
  [(password) => /\p{Ll}/u.test(password), 'The password must contain a lower-case letter.'],
  [(password) => /\p{Lu}/u.test(password), 'The password must contain an upper-case letter.'],
  [(password) => /\d/.test(password), 'The password must contain a digit.'],
];

/** The first rule that a password breaks; `undefined` if it breaks none. */
export function passwordFault(password: string): string | undefined {
  return RULES.find(([holds]) => !holds(password))?.[1];
}

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
    await deleteOpenLinks(tx, userId);
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
 * earlier password ends, because another person may have known it.
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

type PasswordDecision =
  | { allowed: false; refusal: AppError }
  | {
      allowed: true;
      /** Set if the use of the password is an exception. Call it in the transaction that opens the session. */
      recordUse?: (ctx: PublicContext, caller: SessionCaller) => Promise<void>;
    };

/**
 * Decides whether people may use their password or a passkey. Single sign-on implements it, because this feature must not import it.
 */
export interface PasswordPolicy {
  /**
   * Call it after the password or the link was checked, so that it does not reveal accounts. Call it in the transaction
   * that acts on the decision, because single sign-on may be enforced at any moment.
   */
  decide(tx: Tx, userId: string): Promise<PasswordDecision>;
}

const LINK_MS = 3_600_000;

const MAIL_RESET_LINK = defineJob({
  name: 'auth.mail-reset-link',
  input: z.object({ email: z.string() }),
  isSealed: true,
  concurrency: 2,
});

/**
 * Responds the same, and does the same work, for every address: a job looks up whether it has an account, after
 * the response.
 */
export async function forgotPassword(
  ctx: PublicContext,
  email: string,
  { jobs, limits }: { jobs: Jobs; limits: Pick<SignInLimits, 'beforeMail'> },
): Promise<{ success: true }> {
  await limits.beforeMail(email, ctx.client);
  await jobs.enqueue(undefined, MAIL_RESET_LINK, { email }, { deadlineMs: LINK_MS });
  return { success: true };
}

interface Parts {
  jobs: Jobs;
  db: Db;
  mailer: Mailer;
  /** Where people reach this server, without a slash at the end. */
  baseUrl: () => string;
  passwordPolicy: PasswordPolicy;
}

/** Adds the background job for forgotten passwords. */
export function addForgottenPasswordJob({ jobs, db, mailer, baseUrl, passwordPolicy }: Parts): void {
  jobs.handle(MAIL_RESET_LINK, ({ input: { email } }) =>
    withSystem(db, 'create a password reset', async (tx) => {
      const user = await findUserByEmail(tx, email);
      if (user?.status !== 'active') return;
      // A new password would be of no use to people who have to use single sign-on.
      if (!(await passwordPolicy.decide(tx, user.id)).allowed) return;
      const token = randomBytes(32).toString('base64url');
      await PasswordReset.query(tx).where('user_id', user.id).whereRaw('expires_at <= now()').delete();
      await PasswordReset.query(tx).insert({
        tokenHash: tokenHash(token),
        userId: user.id,
        expiresAt: raw('now() + make_interval(secs => ?)', [LINK_MS / 1000]),
      });
      const text = [
        `Hello ${user.name},`,
        'Set a new password for your Muster account here:',
        `${baseUrl()}${DASHBOARD_PAGES.resetPassword}#token=${token}`,
        'The link works once, for one hour. If you did not request it, ignore this mail: your password does not change.',
      ].join('\n\n');
      const mail = { to: user.email, subject: 'Reset your Muster password', text };
      await mailer.send(tx, mail, { validForMs: LINK_MS });
    }),
  );
}
