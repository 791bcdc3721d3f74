import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import { clock } from '../../clock.ts';
import type { PublicContext } from '../../platform/context.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { Mail, Mailer } from '../../platform/mail.ts';
import { verifyPassword } from '../../platform/secrets/passwords.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { DASHBOARD_PAGES } from '../dashboard-pages.ts';
import { type AccountEnding, resetUnverifiedAccount, findUserByEmail, User } from '../users/index.ts';
import { PendingRegistration } from './registration.model.ts';
import type { AddressConfirmation, UserRegistration } from './registration.schema.ts';
import { z } from 'zod';
import { addressKey } from '../../email-address.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import type { Db } from '../../platform/db/pool.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';

/** Registrations that wait for the owner of their address (docs/decisions/verified-addresses.md). */

const LINK_HOURS = 24;

/** The details of a registration beside the account. */
interface Registered {
  /** A provider that is created on confirmation. */
  companyName?: string;
  /** The administrator of a provider that exists already. */
  userId?: string;
}

/** Stores what is to be confirmed. It does not reserve the address: an address may have several registrations. */
export async function keepRegistration(
  tx: Tx,
  { email, name }: UserRegistration,
  passwordHash: string,
  { companyName, userId }: Registered = {},
): Promise<string> {
  const token = randomBytes(32).toString('base64url');
  await PendingRegistration.query(tx).insert({
    tokenHash: tokenHash(token),
    email,
    name,
    passwordHash,
    companyName: companyName ?? null,
    userId: userId ?? null,
    expiresAt: raw(`now() + interval '${LINK_HOURS} hours'`),
  });
  return token;
}

/** The mail to a registered address. It contains nothing chosen by the registrant, who may be a stranger. */
function confirmationMail(to: string, isTaken: boolean, url: (path: string) => string): Mail {
  const text = isTaken
    ? [
        'This address was registered with Muster. You already have an account here.',
        `Sign in at ${url(DASHBOARD_PAGES.signIn)}, or set a new password at ${url(DASHBOARD_PAGES.forgotPassword)} if you have forgotten it.`,
        'If it was not you, ignore this mail: your account does not change.',
      ]
    : [
        'This address was registered with Muster. If it was you, confirm the address here:',
        url(DASHBOARD_PAGES.verifyEmail),
        `You will be asked for the password that you chose. The link works once, for ${LINK_HOURS} hours.`,
        'If it was not you, ignore this mail: without this link your address cannot be used.',
      ];
  return { to, subject: 'Your registration with Muster', text: text.join('\n\n') };
}

const invalidLink = () =>
  new AppError('not_found', 'This link is no longer valid. Register again, or sign in.');

/** Finds a registration by the token of its mail. Throws 404 if it is used up or has expired. */
export async function findRegistration(tx: Tx, token: string): Promise<PendingRegistration> {
  const found = await PendingRegistration.query(tx)
    .findById(tokenHash(token))
    .whereRaw('expires_at > now()')
    .withGraphFetched('user');
  if (found === undefined) throw invalidLink();
  return found;
}

/**
 * Throws unless the password is the one chosen at registration. The link alone proves who reads the mail. The password proves
 * that they registered themselves, and do not confirm the account of a stranger who knows its password.
 */
export async function assertRegistrant(
  { user, passwordHash }: PendingRegistration,
  { password }: AddressConfirmation,
): Promise<void> {
  // The user of an existing account may have changed its password since.
  if (await verifyPassword(user?.passwordHash ?? passwordHash, password)) return;
  throw new AppError('unauthenticated', 'This is not the password that was chosen at registration.');
}

/** Uses the registration up. Returns the account, whose address is proved now, and the provider still to be created. */
export async function confirmRegistration(
  tx: Tx,
  ctx: PublicContext,
  token: string,
  ending: AccountEnding,
): Promise<{ user: User; companyName: string | null }> {
  const pending = await findRegistration(tx, token);
  const taken = await PendingRegistration.query(tx).deleteById(pending.tokenHash);
  if (taken === 0) throw invalidLink();
  const user =
    pending.userId === null
      ? await accountFor(tx, ctx, pending, ending)
      : await User.query(tx).patchAndFetchById(pending.userId, { emailVerifiedAt: clock.date() });
  return { user, companyName: pending.companyName };
}

/** Creates the account, or takes one with an unverified address over for the owner of the address. */
async function accountFor(
  tx: Tx,
  ctx: PublicContext,
  { email, name, passwordHash }: PendingRegistration,
  ending: AccountEnding,
): Promise<User> {
  const proved = { name, passwordHash, emailVerifiedAt: clock.date() };
  const present = await findUserByEmail(tx, email).forUpdate();
  if (present === undefined) return User.query(tx).insert({ email, status: 'active', ...proved });
  if (present.emailVerifiedAt !== null) throw invalidLink();
  await resetUnverifiedAccount(tx, ctx, present.id, ending);
  return User.query(tx).patchAndFetchById(present.id, proved);
}

/** Mails to one address because of registrations, which need no account. */
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
