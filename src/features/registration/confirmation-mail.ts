import { z } from 'zod';
import { addressKey } from '../../email-address.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Mailer } from '../../platform/mail/mailer.ts';
import { DASHBOARD_PAGES } from '../dashboard-pages.ts';
import { findUserByEmail } from '../users/index.ts';
import { confirmationMail } from './confirmation.ts';

/** Mails to one address because of registrations, which anybody can cause. */
const MAILS_TO = { points: 10, seconds: 3600 };

/**
 * Mails the link of a registration. It is a job, so that the time of the response does not show whether the address has
 * an owner.
 */
export const MAIL_CONFIRMATION = defineJob({
  name: 'registration.mail-confirmation',
  input: z.object({ email: z.string(), token: z.string() }),
  isSealed: true,
  concurrency: 2,
});

interface Parts {
  jobs: Jobs;
  db: Db;
  mailer: Mailer;
  rateLimits: RateLimits;
  /** Where people reach this server, without a slash at the end. */
  baseUrl: () => string;
}

export function addRegistrationJobs({ jobs, db, mailer, rateLimits, baseUrl }: Parts): void {
  const mailsTo = rateLimits.limiter('register-mail-to', MAILS_TO);
  const hasMailsLeft = (email: string): Promise<boolean> =>
    mailsTo.take(addressKey(email)).then(
      () => true,
      () => false,
    );
  jobs.handle(MAIL_CONFIRMATION, async ({ input: { email, token }, log }) => {
    if (!(await hasMailsLeft(email))) {
      log.warn({}, 'registration.too_many_mails_to_one_address');
      return;
    }
    await withSystem(db, 'whether an address has an owner', async (tx) => {
      const present = await findUserByEmail(tx, email);
      const isTaken = present !== undefined && present.emailVerifiedAt !== null;
      const mail = confirmationMail(email, isTaken, (path) =>
        path === DASHBOARD_PAGES.verifyEmail ? `${baseUrl()}${path}#token=${token}` : `${baseUrl()}${path}`,
      );
      await mailer.send(tx, mail);
    });
  });
}
