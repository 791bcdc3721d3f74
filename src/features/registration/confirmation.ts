import { randomBytes } from 'node:crypto';
import type { PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { Mail } from '../../platform/mail/mailer.ts';
import { verifyPassword } from '../../platform/secrets/passwords.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { type AccountEnding, displace, findUserByEmail, User } from '../users/index.ts';
import type { AddressConfirmation, UserRegistration } from './registration.schema.ts';

/** Registrations that wait for the owner of their address (docs/decisions/verified-addresses.md). */

const LINK_HOURS = 24;

interface Pending {
  email: string;
  name: string;
  password_hash: string;
  company_name: string | null;
  user_id: string | null;
}

/** What is registered besides the account. */
export interface Registered {
  /** A provider that is made on confirmation. */
  companyName?: string;
  /** The administrator of a provider that is there already. */
  userId?: string;
}

/** Writes down what is to be confirmed. It takes no address: each registration of one stands for itself. */
export async function keepRegistration(
  tx: Tx,
  { email, name }: UserRegistration,
  passwordHash: string,
  { companyName, userId }: Registered = {},
): Promise<string> {
  const token = randomBytes(32).toString('base64url');
  await tx('registrations').insert({
    token_hash: tokenHash(token),
    email,
    name,
    password_hash: passwordHash,
    company_name: companyName ?? null,
    user_id: userId ?? null,
    expires_at: tx.raw(`now() + interval '${LINK_HOURS} hours'`),
  });
  return token;
}

/** The mail to an address that was registered. Nothing in it is chosen by whoever registered, who may be a stranger. */
export function confirmationMail(to: string, isTaken: boolean, url: (path: string) => string): Mail {
  const text = isTaken
    ? [
        'Somebody has registered this address with Muster. You already have an account here.',
        `Sign in at ${url('/login')}, or set a new password at ${url('/forgot-password')} if you have forgotten it.`,
        'If it was not you, do nothing: your account stays as it is.',
      ]
    : [
        'Somebody has registered this address with Muster. If it was you, confirm the address here:',
        url('/verify-email'),
        `You are asked for the password that you chose. The link works once, for ${LINK_HOURS} hours.`,
        'If it was not you, do nothing: without this link nobody can use your address.',
      ];
  return { to, subject: 'Your registration with Muster', text: text.join('\n\n') };
}

const deadLink = () =>
  new AppError('not_found', 'This link is not valid any more. Register again, or sign in.');

/** Finds a registration by the token of its mail. Throws 404 for one that is used up, or over. */
export async function findRegistration(tx: Tx, token: string): Promise<Pending> {
  const [found] = await tx('registrations as r')
    .leftJoin('users as u', 'u.id', 'r.user_id')
    .where('r.token_hash', tokenHash(token))
    .whereRaw('r.expires_at > now()')
    .select<Pending[]>(
      'r.email',
      'r.name',
      'r.company_name',
      'r.user_id',
      // Whoever has an account already may have changed its password since.
      tx.raw('coalesce(u.password_hash, r.password_hash) as password_hash'),
    );
  if (found === undefined) throw deadLink();
  return found;
}

/**
 * Throws unless the password is the one that was chosen. The link alone shows who reads the mail; the password shows
 * that they registered, and do not confirm the account of a stranger, who would have its password.
 */
export async function assertRegistrant(pending: Pending, { password }: AddressConfirmation): Promise<void> {
  if (await verifyPassword(pending.password_hash, password)) return;
  throw new AppError('unauthenticated', 'This is not the password that was chosen on registration.');
}

/** Uses the registration up. Answers the account, whose address is proved now, and the provider still to be made. */
export async function confirmRegistration(
  tx: Tx,
  ctx: PublicContext,
  token: string,
  ending: AccountEnding,
): Promise<{ user: User; companyName: string | null }> {
  const pending = await findRegistration(tx, token);
  const taken = await tx('registrations')
    .where({ token_hash: tokenHash(token) })
    .delete();
  if (taken === 0) throw deadLink();
  const user =
    pending.user_id === null
      ? await accountFor(tx, ctx, pending, ending)
      : await User.query(tx).patchAndFetchById(pending.user_id, { emailVerifiedAt: new Date() });
  return { user, companyName: pending.company_name };
}

/** A new account, or one whose address nobody has proved: its holder makes way for the owner of the address. */
async function accountFor(
  tx: Tx,
  ctx: PublicContext,
  { email, name, password_hash: passwordHash }: Pending,
  ending: AccountEnding,
): Promise<User> {
  const proved = { name, passwordHash, emailVerifiedAt: new Date() };
  const present = await findUserByEmail(tx, email);
  if (present === undefined) return User.query(tx).insert({ email, status: 'active', ...proved });
  const locked = await User.query(tx).findById(present.id).forUpdate();
  if (locked === undefined || locked.emailVerifiedAt !== null) throw deadLink();
  await displace(tx, ctx, locked.id, ending);
  return User.query(tx).patchAndFetchById(locked.id, proved);
}
