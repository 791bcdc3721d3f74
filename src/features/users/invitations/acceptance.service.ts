import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { displace, type AccountEnding } from '../accounts/account-ending.ts';
import {
  addMembership,
  belongsSomewhere,
  leaveUnusablePlaces,
  type Place,
} from '../members/membership.service.ts';
import { User } from '../accounts/user.model.ts';

/**
 * How an invitation becomes a membership (docs/decisions/verified-addresses.md). All of it runs across tenants: nobody
 * is signed in yet.
 */

interface InvitationRow {
  id: string;
  email: string;
  name: string;
  role_id: string;
  partner_id: string | null;
  org_id: string | null;
  org_access: 'all' | 'selected' | 'none';
  org_ids: string[];
  partner_name: string | null;
  org_name: string | null;
  /** The link came from the mail, which the inviter cannot read. */
  proves_address: boolean;
}

export interface OpenInvitation {
  email: string;
  name: string;
  partnerName: string | null;
  orgName: string | null;
  /** The password that whoever accepts must prove, though a wrong one may make them the new holder. */
  account: { passwordHash: string | null; yields: boolean } | undefined;
}

async function findOpen(tx: Tx, hash: string): Promise<InvitationRow> {
  const [found] = await tx('membership_invitations as i')
    .leftJoin('organizations as o', 'o.id', 'i.org_id')
    .leftJoin('partners as p', (join) => void join.on(tx.raw('p.id = coalesce(i.partner_id, o.partner_id)')))
    .whereRaw('? in (i.link_token_hash, i.mail_token_hash)', [hash])
    .where('i.suspended', false)
    .whereRaw('i.expires_at > now()')
    .whereNull('o.deleted_at')
    .whereNull('p.deleted_at')
    .select<InvitationRow[]>(
      'i.id',
      'i.email',
      'i.name',
      'i.role_id',
      'i.partner_id',
      'i.org_id',
      'i.org_access',
      'i.org_ids',
      'p.name as partner_name',
      'o.name as org_name',
      tx.raw('i.mail_token_hash = ? as proves_address', [hash]),
    );
  if (found === undefined) throw notFound('Invitation');
  return found;
}

/** The invitation behind a token: not used, not expired, not suspended, and its place not deleted. */
export async function openInvitation(tx: Tx, token: string): Promise<OpenInvitation> {
  const invitation = await findOpen(tx, tokenHash(token));
  const account = await accountAt(tx, invitation.email);
  return {
    email: invitation.email,
    name: invitation.name,
    partnerName: invitation.partner_name,
    orgName: invitation.org_name,
    account: account && {
      passwordHash: account.passwordHash,
      yields: await yields(tx, account, invitation),
    },
  };
}

/**
 * Whether whoever accepts becomes the holder of the account, rather than having to prove its password. An account whose
 * address nobody has proved yields to whoever reads the mail; one that belongs nowhere beside, to anyone invited.
 */
async function yields(
  tx: Tx,
  account: User,
  { proves_address: proved }: Pick<InvitationRow, 'proves_address'>,
): Promise<boolean> {
  return account.emailVerifiedAt === null && (proved || !(await belongsSomewhere(tx, account.id)));
}

const accountAt = (tx: Tx, email: string) =>
  User.query(tx).whereRaw('lower(email) = lower(?)', [email]).first();

/** Uses the invitation up: of two at once, one gets it and the other `not_found`. */
async function take(tx: Tx, hash: string): Promise<InvitationRow> {
  const invitation = await findOpen(tx, hash);
  const taken = await tx('membership_invitations').where({ id: invitation.id }).delete();
  if (taken === 0) throw notFound('Invitation');
  return invitation;
}

/** Makes the account, or hands it over to its new holder, as a member of the place of the invitation. */
export async function joinAsNewHolder(
  tx: Tx,
  ctx: PublicContext,
  { token, passwordHash }: { token: string; passwordHash: string },
  ending: AccountEnding,
): Promise<void> {
  const invitation = await take(tx, tokenHash(token));
  const { id, email, name } = invitation;
  const account = { name, passwordHash, emailVerifiedAt: invitation.proves_address ? new Date() : null };
  const { rowCount } = await tx.raw(
    `insert into users (id, email, name, password_hash, email_verified_at) values (?, ?, ?, ?, ?)
    on conflict (lower(email)) do nothing`,
    [id, email, name, passwordHash, account.emailVerifiedAt],
  );
  if (rowCount === 1) {
    await join(tx, id, invitation);
    return;
  }
  const present = await accountAt(tx, email).forUpdate();
  if (present === undefined || !(await yields(tx, present, invitation))) {
    throw new AppError('conflict', 'An account for this address has just been made. Try again.');
  }
  await displace(tx, ctx, present.id, ending);
  await User.query(tx).findById(present.id).patch(account);
  await join(tx, present.id, invitation);
}

/** Makes the holder of an account, who has just proved to be, a member of the place of the invitation. */
export async function joinAsHolder(
  tx: Tx,
  invitationTokenHash: string,
  user: User,
  { revokeKeysOf }: Pick<AccountEnding, 'revokeKeysOf'>,
): Promise<void> {
  const invitation = await take(tx, invitationTokenHash);
  if (invitation.email.toLowerCase() !== user.email.toLowerCase()) throw notFound('Invitation');
  await User.query(tx).findById(user.id).forUpdate();
  await leaveUnusablePlaces(tx, user.id);
  if (await belongsSomewhere(tx, user.id)) {
    throw new AppError('conflict', 'You already belong to a provider or an organization. Leave it first.');
  }
  // Keys of an earlier membership opened what that one did, and must not open what this one does.
  await revokeKeysOf(tx, user.id);
  if (invitation.proves_address && user.emailVerifiedAt === null) {
    await User.query(tx).findById(user.id).patch({ emailVerifiedAt: new Date() });
  }
  await join(tx, user.id, invitation);
}

async function join(tx: Tx, userId: string, invitation: InvitationRow): Promise<void> {
  const { partner_id: partnerId, org_id: orgId, role_id: roleId } = invitation;
  const scope = partnerId !== null ? 'partner' : orgId !== null ? 'organization' : 'system';
  const place: Place = { scope, partnerId, orgId };
  await addMembership(tx, userId, place, {
    roleId,
    orgAccess: invitation.org_access,
    orgIds: invitation.org_ids,
  });
}
