import { randomBytes } from 'node:crypto';
import type { Context } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import { newId } from '../../../platform/ids.ts';
import type { Mailer } from '../../../platform/mail/mailer.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import { findRoleToAssign } from '../../roles/index.ts';
import type { InvitationLimits } from './invitation-limits.ts';
import { assertMayChange, grantFor, type Place, type WantedGrant } from '../members/membership.service.ts';
import { readPerson, selectPeople, visiblePeople, type Person } from '../members/member.queries.ts';
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
 * Writes an invitation and mails its link once everything is committed. It takes nothing until it is accepted: the
 * answer is the same whether the address has an account elsewhere or not, and other tenants may invite it as well.
 */
export async function invite(ctx: Context, input: NewInvitation, parts: MailParts) {
  const { place, wanted } = await destinationOf(ctx, input);
  const grant = await grantFor(ctx, place, wanted, { roleId: input.roleId, orgAccess: 'none', orgIds: [] });
  const [member] = await selectPeople(
    visiblePeople(ctx).whereRaw('lower(p.email) = lower(?) and not p.is_invitation', [input.email]),
  );
  if (member !== undefined) throw new AppError('conflict', `${member.email} is already a member.`);
  await removeExpired(ctx, input.email, place);
  const { token, mailToken, columns } = newLinks(ctx);
  const [invitation] = await ctx
    .tx('membership_invitations')
    .insert({
      id: newId(),
      email: input.email,
      name: input.name,
      partner_id: place.partnerId,
      org_id: place.orgId,
      role_id: grant.roleId,
      org_access: grant.orgAccess,
      org_ids: grant.orgIds,
      ...columns,
    })
    // Of two at once into one place, the second finds the first in its way.
    .onConflict()
    .ignore()
    .returning<{ id: string }[]>('id');
  if (invitation === undefined) {
    throw new AppError('conflict', `${input.email} is already invited. Send that invitation again instead.`);
  }
  return send(ctx, await readPerson(ctx, invitation.id), { token, mailToken }, parts);
}

/** New links, by mail again; the ones before stop working. */
export async function resendInvitation(ctx: Context, id: string, parts: MailParts) {
  const person = await readPerson(ctx, id);
  await assertMayChange(ctx, person);
  if (person.status !== 'invited') {
    throw new AppError('conflict', 'Only someone who has not accepted yet can be invited again.');
  }
  const { token, mailToken, columns } = newLinks(ctx);
  const renewed = await ctx
    .tx('membership_invitations')
    .where({ id, suspended: false })
    .update({ ...columns, updated_at: ctx.tx.fn.now() });
  if (renewed === 0) throw new AppError('conflict', 'The invitation has just been accepted or taken back.');
  return send(ctx, person, { token, mailToken }, parts);
}

/** A suspended invitation cannot be accepted until it is resumed. */
export async function changeInvitation(ctx: Context, { id, name, status }: Person, change: UserChange) {
  await ctx
    .tx('membership_invitations')
    .where({ id })
    .update({
      name: change.name ?? name,
      suspended: (change.status ?? status) === 'disabled',
      updated_at: ctx.tx.fn.now(),
    });
}

/**
 * The place that an invitation leads to, and what is wanted there: the organization of `orgId`, or the only one of
 * `orgIds` where the role is for people of an organization, or else the caller's own partner or organization.
 */
async function destinationOf(
  ctx: Context,
  input: NewInvitation,
): Promise<{ place: Place; wanted: WantedGrant }> {
  const { caller } = ctx;
  const { orgId, orgIds, orgAccess, roleId } = input;
  const role = await findRoleToAssign(ctx, roleId);
  const intoOrganization =
    orgId !== undefined || caller.scope === 'organization' || role?.scope === 'organization';
  if (!intoOrganization) {
    return { place: { scope: caller.scope, partnerId: caller.partnerId, orgId: null }, wanted: input };
  }
  if (orgAccess !== undefined && orgAccess !== 'selected') {
    throw invalid('body.orgAccess', 'is for people of a partner only');
  }
  const named = new Set([...(orgId === undefined ? [] : [orgId]), ...(orgIds ?? [])]);
  if (named.size > 1) {
    throw invalid('body.orgIds', 'must name one organization only, as the role is for people of one');
  }
  const [into = caller.orgId] = named;
  if (into === null) {
    throw invalid('body.orgId', 'must name the organization, as the role is for people of one');
  }
  await assertOrganizationAccess(ctx, into);
  return { place: { scope: 'organization', partnerId: null, orgId: into }, wanted: { roleId } };
}

async function removeExpired(ctx: Context, email: string, { partnerId, orgId }: Place): Promise<void> {
  await ctx.tx.raw(
    `delete from membership_invitations
    where partner_id is not distinct from :partnerId::uuid and org_id is not distinct from :orgId::uuid
      and expires_at <= now() and lower(email) = lower(:email)`,
    { partnerId, orgId, email },
  );
}

/** The link that the inviter is shown, and the one that only the mail has: whoever uses that one reads the mail. */
function newLinks(ctx: Context) {
  const [token, mailToken] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')];
  const columns = {
    link_token_hash: tokenHash(token),
    mail_token_hash: tokenHash(mailToken),
    invited_by: ctx.caller.userId,
    expires_at: ctx.tx.raw(`now() + interval '${INVITATION_DAYS} days'`),
  };
  return { token, mailToken, columns };
}

function send(
  ctx: Context,
  person: Person,
  { token, mailToken }: { token: string; mailToken: string },
  { mailer, baseUrl }: MailParts,
) {
  // Behind the # it stays in the browser: no server and no proxy on the way writes it to a log.
  const urlOf = (secret: string) => `${baseUrl()}/accept-invite#token=${secret}`;
  const text = [
    `Hello ${person.name},`,
    `${ctx.caller.name} has invited you to Muster. Accept the invitation here:`,
    urlOf(mailToken),
    `The link works once, for ${INVITATION_DAYS} days. If you did not expect it, do nothing.`,
  ].join('\n\n');
  ctx.afterCommit(() => mailer.post({ to: person.email, subject: 'You are invited to Muster', text }));
  return { ...person, inviteUrl: urlOf(token) };
}
