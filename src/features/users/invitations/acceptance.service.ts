import { clock } from '../../../clock.ts';
import { addressForms, addressKey } from '../../../email-address.ts';
import type { PublicContext } from '../../../platform/context.ts';
import { hasAddressIn } from '../../../platform/db/address-condition.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { Role, stillHolds } from '../../roles/index.ts';
import { type AccountEnding, resetUnverifiedAccount } from '../accounts/account-ending.ts';
import { Invitation } from '../accounts/invitation.model.ts';
import { addMembership, hasMembership, leaveUnusableTenants } from '../accounts/membership.queries.ts';
import { User } from '../accounts/user.model.ts';
import { findUserByEmail } from '../accounts/user.service.ts';

/**
 * Turns an invitation into a membership (docs/decisions/verified-addresses.md). All of it runs across tenants, because
 * nobody is signed in yet.
 */

export interface OpenInvitation {
  email: string;
  name: string;
  partnerName: string | null;
  orgName: string | null;
  /**
   * The account with the invited address, if there is one. Whoever accepts must prove its password; where the account is
   * claimable, a wrong password makes them its new user instead.
   */
  account: { passwordHash: string | null; isClaimable: boolean } | undefined;
}

/**
 * Finds an invitation by the token hash of either link, unless it has expired, is suspended, its tenant is deleted, or
 * whoever has sent it could not send it any more: they know one of its links.
 */
async function findOpen(tx: Tx, hash: string): Promise<Invitation> {
  const invitation = await Invitation.query(tx)
    .where((either) => void either.where('link_token_hash', hash).orWhere('mail_token_hash', hash))
    .where('suspended', false)
    .whereRaw('expires_at > now()')
    .withGraphFetched('[partner, organization.partner]')
    .first();
  const tenants = [invitation?.partner, invitation?.organization, invitation?.organization?.partner];
  if (invitation === undefined || tenants.some((tenant) => tenant != null && tenant.deletedAt !== null)) {
    throw notFound('Invitation');
  }
  if (!(await isBacked(tx, invitation))) throw notFound('Invitation');
  return invitation;
}

/** Whether whoever has sent the invitation has the rights for it now: nobody may come back by a link that they kept. */
async function isBacked(tx: Tx, invitation: Invitation): Promise<boolean> {
  const { invitedBy, organization, orgAccess } = invitation;
  const partnerId = invitation.partnerId ?? organization?.partnerId ?? null;
  const granted = organization == null ? invitation.orgIds : [organization.id];
  const isWhole = organization == null && (partnerId === null || orgAccess === 'all');
  const role = await Role.query(tx).findById(invitation.roleId).throwIfNotFound();
  const needed = ['users:invite', ...role.permissions];
  return stillHolds(tx, invitedBy, { partnerId, orgIds: isWhole ? 'all' : granted }, needed);
}

/** The inviter cannot read the link of the mail, so its use proves the address. */
const provesAddress = (invitation: Invitation, hash: string) => invitation.mailTokenHash === hash;

export async function openInvitation(tx: Tx, token: string): Promise<OpenInvitation> {
  const hash = tokenHash(token);
  const invitation = await findOpen(tx, hash);
  const { email, name, organization } = invitation;
  // A relation without a row is null.
  const partner = invitation.partner ?? organization?.partner;
  const account = await findUserByEmail(tx, email);
  return {
    email,
    name,
    partnerName: partner?.name ?? null,
    orgName: organization?.name ?? null,
    account: account && {
      passwordHash: account.passwordHash,
      isClaimable: await isClaimable(tx, account, provesAddress(invitation, hash)),
    },
  };
}

/**
 * Whether whoever accepts becomes the user of an existing account without proving its password. An account with an
 * unverified address goes to whoever reads the mail; one without a membership, to anyone who is invited.
 */
async function isClaimable(tx: Tx, account: User, isAddressProved: boolean): Promise<boolean> {
  return account.emailVerifiedAt === null && (isAddressProved || !(await hasMembership(tx, account.id)));
}

/** Uses the invitation up: of two requests at once, one gets it and the other `not_found`. */
async function take(tx: Tx, hash: string): Promise<Invitation> {
  const invitation = await findOpen(tx, hash);
  if ((await Invitation.query(tx).deleteById(invitation.id)) === 0) throw notFound('Invitation');
  return invitation;
}

/** Creates the account, or gives a claimable one to its new user, and makes it a member of the tenant. */
export async function joinAsNewUser(
  tx: Tx,
  ctx: PublicContext,
  { token, passwordHash }: { token: string; passwordHash: string },
  ending: AccountEnding,
): Promise<void> {
  const hash = tokenHash(token);
  const invitation = await take(tx, hash);
  const { id, email, name } = invitation;
  const isAddressProved = provesAddress(invitation, hash);
  const emailVerifiedAt = isAddressProved ? clock.date() : null;
  const { rowCount } = await tx.raw(
    `insert into users (id, email, name, password_hash, email_verified_at)
    select :id, :email, :name, :passwordHash, :emailVerifiedAt::timestamptz
    where not exists (select from users where ${hasAddressIn('email', ':forms')})
    on conflict (lower(email)) do nothing`,
    { id, email, name, passwordHash, emailVerifiedAt, forms: addressForms(email) },
  );
  if (rowCount === 1) {
    await addMembership(tx, id, invitation, invitation);
    return;
  }
  const present = await findUserByEmail(tx, email).forUpdate();
  if (present === undefined || !(await isClaimable(tx, present, isAddressProved))) {
    throw new AppError('conflict', 'An account for this address has just been created. Try again.');
  }
  await resetUnverifiedAccount(tx, ctx, present.id, ending);
  await User.query(tx).findById(present.id).patch({ name, passwordHash, emailVerifiedAt });
  await addMembership(tx, present.id, invitation, invitation);
}

/** Makes a user who has just signed in a member of the tenant. */
export async function joinAsExistingUser(
  tx: Tx,
  invitationTokenHash: string,
  ctx: PublicContext,
  user: User,
  ending: Pick<AccountEnding, 'revokeKeysOf' | 'noteLeft'>,
): Promise<void> {
  const invitation = await take(tx, invitationTokenHash);
  if (addressKey(invitation.email) !== addressKey(user.email)) throw notFound('Invitation');
  await User.query(tx).findById(user.id).forUpdate();
  for (const tenant of await leaveUnusableTenants(tx, user.id)) await ending.noteLeft(tx, ctx, user, tenant);
  if (await hasMembership(tx, user.id)) {
    throw new AppError(
      'conflict',
      'You are already a member of a provider or an organization. Leave it first.',
    );
  }
  // Keys of an earlier membership must not open what this one does.
  await ending.revokeKeysOf(tx, user.id);
  if (provesAddress(invitation, invitationTokenHash) && user.emailVerifiedAt === null) {
    await User.query(tx).findById(user.id).patch({ emailVerifiedAt: clock.date() });
  }
  await addMembership(tx, user.id, invitation, invitation);
}
