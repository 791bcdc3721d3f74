import {
  insertUserIfNew,
  type Tenant,
  readMember,
  selectMembers,
  visibleMembers,
  type Member,
  addMembership,
  hasMembership,
  leaveUnusableTenants,
  removeExpired,
} from './user.queries.ts';
import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import { addressForms, addressKey } from '../../email-address.ts';
import type { Context, Caller, PublicContext } from '../../platform/context.ts';
import { hasAddressIn } from '../../platform/db/statement.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Mailer } from '../../platform/mail.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { DASHBOARD_PAGES } from '../dashboard-pages.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { Partner } from '../partners/index.ts';
import { findRoleToAssign, Role, stillHolds } from '../roles/index.ts';
import { Invitation, User } from './user.model.ts';
import { assertMayChange, grantFor, type WantedGrant } from './membership.service.ts';
import type { NewInvitation, UserChange } from './user.schema.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { clock } from '../../clock.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { type AccountEnding, resetUnverifiedAccount, findUserByEmail } from './user.service.ts';

const INVITATION_DAYS = 7;

export interface InvitationParts {
  mailer: Mailer;
  invitationLimits: InvitationLimits;
  /** Where people reach this server, without a slash at the end. */
  baseUrl: () => string;
}

type MailParts = Pick<InvitationParts, 'mailer' | 'baseUrl'>;

/**
 * Stores an invitation together with the mail of its link. It does not reserve the address: the answer is the same whether
 * the address has an account elsewhere or not, and other tenants may invite it as well.
 */
export async function invite(ctx: Context, input: NewInvitation, parts: MailParts) {
  const { tenant, wanted } = await destinationOf(ctx, input);
  const grant = await grantFor(ctx, tenant, wanted, { roleId: input.roleId, orgAccess: 'none', orgIds: [] });
  const [member] = await selectMembers(
    visibleMembers(ctx).whereRaw(`${hasAddressIn('p.email', '?')} and not p.is_invitation`, [
      addressForms(input.email),
    ]),
  );
  if (member !== undefined) throw new AppError('conflict', `${member.email} is already a member.`);
  await removeExpired(ctx, input.email, tenant);
  const { token, mailToken, columns } = newLinks(ctx);
  const id = newId();
  // If two are made at once for one tenant, the second conflicts with the first and is not inserted.
  await Invitation.query(ctx.tx)
    .insert({
      id,
      email: input.email,
      name: input.name,
      partnerId: tenant.partnerId,
      orgId: tenant.orgId,
      ...grant,
      ...columns,
    })
    .onConflict()
    .ignore();
  if ((await Invitation.query(ctx.tx).findById(id)) === undefined) {
    throw new AppError('conflict', `${input.email} is already invited. Resend that invitation instead.`);
  }
  return mailInvitation(ctx, await readMember(ctx, id), { token, mailToken }, parts);
}

/** Mails new links; the earlier ones stop working. */
export async function resendInvitation(ctx: Context, id: string, parts: MailParts) {
  const member = await readMember(ctx, id);
  await assertMayChange(ctx, member);
  if (member.status !== 'invited') {
    throw new AppError('conflict', 'Only invitations that are not accepted yet can be resent.');
  }
  const { token, mailToken, columns } = newLinks(ctx);
  const renewed = await Invitation.query(ctx.tx).findById(id).where('suspended', false).patch(columns);
  if (renewed === 0) throw new AppError('conflict', 'The invitation has just been accepted or withdrawn.');
  return mailInvitation(ctx, member, { token, mailToken }, parts);
}

/** A suspended invitation cannot be accepted until it is resumed. */
export async function changeInvitation(ctx: Context, { id, name, status }: Member, change: UserChange) {
  await Invitation.query(ctx.tx)
    .findById(id)
    .patch({ name: change.name ?? name, suspended: (change.status ?? status) === 'disabled' });
}

/**
 * The tenant of an invitation and the wanted grant: the organization of `orgId`, the only one of `orgIds` where the role is
 * for users of an organization, or else the caller's own partner or organization.
 */
async function destinationOf(
  ctx: Context,
  input: NewInvitation,
): Promise<{ tenant: Tenant; wanted: WantedGrant }> {
  const { caller } = ctx;
  const { orgId, orgIds, orgAccess, roleId } = input;
  const role = await findRoleToAssign(ctx, roleId);
  const intoOrganization =
    orgId !== undefined || caller.scope === 'organization' || role?.scope === 'organization';
  if (!intoOrganization) {
    const partnerId = await partnerOf(ctx, input.partnerId, role);
    return {
      tenant: { scope: partnerId === null ? 'system' : 'partner', partnerId, orgId: null },
      wanted: input,
    };
  }
  if (input.partnerId !== undefined) {
    throw invalid('body.partnerId', 'is only for roles of a partner; an organization is named by orgId');
  }
  if (orgAccess !== undefined && orgAccess !== 'selected') {
    throw invalid('body.orgAccess', 'is only for users of a partner');
  }
  const named = new Set([...(orgId === undefined ? [] : [orgId]), ...(orgIds ?? [])]);
  if (named.size > 1) {
    throw invalid('body.orgIds', 'must name exactly one organization, because the role is for users of one');
  }
  const [into = caller.orgId] = named;
  if (into === null) {
    throw invalid('body.orgId', 'must name the organization, because the role is for users of one');
  }
  await assertOrganizationAccess(ctx, into);
  return { tenant: { scope: 'organization', partnerId: null, orgId: into }, wanted: { roleId } };
}

/** The partner whose user the person becomes; null for a person of the system. */
async function partnerOf(
  ctx: Context,
  given: string | undefined,
  role: Pick<Role, 'scope'> | undefined,
): Promise<string | null> {
  const { caller } = ctx;
  if (caller.scope !== 'system') {
    if (given !== undefined && given !== caller.partnerId) {
      throw new AppError('forbidden', 'partnerId mismatch');
    }
    return caller.partnerId;
  }
  if (role?.scope !== 'partner') {
    if (given !== undefined) throw invalid('body.partnerId', 'is only for roles of a partner');
    return null;
  }
  if (given === undefined) {
    throw invalid('body.partnerId', 'must name the partner, because the role is for users of one');
  }
  const partner = await Partner.query(ctx.tx).findById(given).whereNull('deleted_at');
  if (partner === undefined) throw notFound('Partner');
  return partner.id;
}

/** Two links: one that the inviter is shown, and one that only the mail contains, whose use proves the address. */
function newLinks(ctx: Context) {
  const [token, mailToken] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')];
  const columns = {
    linkTokenHash: tokenHash(token),
    mailTokenHash: tokenHash(mailToken),
    invitedBy: ctx.caller.userId,
    expiresAt: raw(`now() + interval '${INVITATION_DAYS} days'`),
  };
  return { token, mailToken, columns };
}

async function mailInvitation(
  ctx: Context,
  member: Member,
  { token, mailToken }: { token: string; mailToken: string },
  { mailer, baseUrl }: MailParts,
) {
  // The part after # stays in the browser, so no server or proxy logs the token.
  const urlOf = (secret: string) => `${baseUrl()}${DASHBOARD_PAGES.acceptInvitation}#token=${secret}`;
  const text = [
    `Hello ${member.name},`,
    `${ctx.caller.name} has invited you to Muster. Accept the invitation here:`,
    urlOf(mailToken),
    `The link works once, for ${INVITATION_DAYS} days. If you did not expect this invitation, ignore this mail.`,
  ].join('\n\n');
  const mail = { to: member.email, subject: 'You are invited to Muster', text };
  await mailer.send(ctx.tx, mail, { partnerId: ctx.caller.partnerId });
  return { ...member, inviteUrl: urlOf(token) };
}

/**
 * Turns an invitation into a membership (docs/decisions/verified-addresses.md). All of it runs across tenants, because
 * the caller is not signed in yet.
 */

interface OpenInvitation {
  email: string;
  name: string;
  partnerName: string | null;
  orgName: string | null;
  /**
   * The account with the invited address, if there is one. The person who accepts must prove its password; if the account is
   * claimable, a wrong password makes them its new user instead.
   */
  account: { passwordHash: string | null; isClaimable: boolean } | undefined;
}

/**
 * Finds an invitation by the token hash of either link, unless it has expired, is suspended, its tenant is deleted, or
 * the sender could not send it any more: they know one of its links.
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

/** Whether the sender of the invitation has the rights for it now: a former user must not come back by a link that they kept. */
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
 * Whether the person who accepts becomes the user of an existing account without proving its password. An account with an
 * unverified address goes to the reader of the mail; one without a membership, to anyone who is invited.
 */
async function isClaimable(tx: Tx, account: User, isAddressProved: boolean): Promise<boolean> {
  return account.emailVerifiedAt === null && (isAddressProved || !(await hasMembership(tx, account.id)));
}

/** Uses the invitation up: of two requests at once, one gets it and the other `not_found`. */
async function consumeInvitation(tx: Tx, hash: string): Promise<Invitation> {
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
  const invitation = await consumeInvitation(tx, hash);
  const { id, email, name } = invitation;
  const isAddressProved = provesAddress(invitation, hash);
  const emailVerifiedAt = isAddressProved ? clock.date() : null;
  if (await insertUserIfNew(tx, { id, email, name, passwordHash, emailVerifiedAt })) {
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
  const invitation = await consumeInvitation(tx, invitationTokenHash);
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

/** Mails that one user can send. */
const BY_INVITER = { points: 100, seconds: 3600 };

/** Mails of one tenant to one address. Other tenants are not counted, because they could block this one's invitations. */
const TO_ADDRESS = { points: 5, seconds: 3600 };

type InvitationLimits = ReturnType<typeof invitationLimits>;

/** An invitation is a mail to any address, so without limits a tenant could flood any mailbox. */
export function invitationLimits(limits: RateLimits) {
  const byInviter = limits.limiter('invite-by', BY_INVITER);
  const toAddress = limits.limiter('invite-to', TO_ADDRESS);
  return {
    /** Throws `rate_limited`. Before the transaction, which must not wait for Redis. */
    async beforeInvitation({ userId, partnerId, orgId }: Caller, email: string): Promise<void> {
      await byInviter.take(userId);
      await toAddress.take(`${partnerId ?? orgId ?? 'system'} ${addressKey(email)}`);
    },

    async beforeResending({ userId }: Caller, invitationId: string): Promise<void> {
      await byInviter.take(userId);
      await toAddress.take(`again ${invitationId}`);
    },
  };
}
