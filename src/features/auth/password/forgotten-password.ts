import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import { z } from 'zod';
import type { PublicContext } from '../../../platform/context.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Mailer } from '../../../platform/mail/mailer.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { DASHBOARD_PAGES } from '../../dashboard-pages.ts';
import { findUserByEmail } from '../../users/index.ts';
import type { SignInLimits } from '../sign-in-limits.ts';
import type { PasswordPolicy } from './password-policy.ts';
import { PasswordReset } from './password-reset.model.ts';

const LINK_MS = 3_600_000;

const MAIL_RESET_LINK = defineJob({
  name: 'auth.mail-reset-link',
  input: z.object({ email: z.string() }),
  isSealed: true,
  concurrency: 2,
});

/**
 * Answers the same, and does the same work, for every address: whether it has an account is looked up by a job, after
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

/** Adds what becomes of a forgotten password to the background jobs. */
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
