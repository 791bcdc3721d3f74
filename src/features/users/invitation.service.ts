import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import { addressForms } from '../../../email-address.ts';
import type { Context } from '../../../platform/context.ts';
import { hasAddressIn } from '../../../platform/db/address-condition.ts';
import { AppError, invalid, notFound } from '../../../platform/errors.ts';
import { newId } from '../../../platform/ids.ts';
import type { Mailer } from '../../../platform/mail/mailer.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { DASHBOARD_PAGES } from '../../dashboard-pages.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import { Partner } from '../../partners/index.ts';
import { findRoleToAssign, type Role } from '../../roles/index.ts';
import type { InvitationLimits } from './invitation-limits.ts';
import { Invitation } from '../accounts/invitation.model.ts';
import type { Tenant } from '../accounts/membership.queries.ts';
import { assertMayChange, grantFor, type WantedGrant } from '../members/membership.service.ts';
import { readMember, selectMembers, visibleMembers, type Member } from '../members/member.queries.ts';
import type { NewInvitation, UserChange } from '../user.schema.ts';

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
  // Of two at once into one tenant, the second conflicts with the first and is not inserted.
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
  return send(ctx, await readMember(ctx, id), { token, mailToken }, parts);
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
  return send(ctx, member, { token, mailToken }, parts);
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

async function removeExpired(ctx: Context, email: string, { partnerId, orgId }: Tenant): Promise<void> {
  await ctx.tx.raw(
    `delete from membership_invitations
    where partner_id is not distinct from :partnerId::uuid and org_id is not distinct from :orgId::uuid
      and expires_at <= now() and ${hasAddressIn('email', ':forms')}`,
    { partnerId, orgId, forms: addressForms(email) } as Record<string, string | string[] | null>,
  );
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

async function send(
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
