import { randomBytes } from 'node:crypto';
import type { Context } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Mailer } from '../../platform/mail/mailer.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { addMembership, assertMayChange, grantFor, type Place } from './membership.ts';
import { readPerson, selectPeople, visiblePeople, type Person } from './person.ts';
import type { NewInvitation } from './user.schema.ts';

const INVITATION_DAYS = 7;

export interface InvitationParts {
  mailer: Mailer;
  /** Where people reach this server, without a slash at the end. */
  baseUrl: () => string;
}

/** Makes the person a member and asks them to come: by mail, once everything is committed. */
export async function invite(ctx: Context, input: NewInvitation, parts: InvitationParts) {
  const place = await placeOf(ctx, input.orgId);
  const grant = await grantFor(ctx, place, input, { roleId: input.roleId, orgAccess: 'none', orgIds: [] });
  const [member] = await selectPeople(
    visiblePeople(ctx).whereRaw('lower(u.email) = lower(?)', [input.email]),
  );
  if (member !== undefined) throw new AppError('conflict', `${member.email} is already a member.`);
  const { rows } = await ctx.tx.raw('select account_id, taken from account_for_invitation(?, ?, ?)', [
    newId(),
    input.email,
    input.name,
  ]);
  const account = rows[0] as { account_id: string; taken: boolean };
  if (account.taken) {
    throw new AppError('conflict', 'This address cannot be invited: it is in use elsewhere.');
  }
  await addMembership(ctx, account.account_id, place, grant);
  return sendInvitation(ctx, await readPerson(ctx, account.account_id), parts);
}

/** A new link, by mail again; the one before stops working. */
export async function resendInvitation(ctx: Context, userId: string, parts: InvitationParts) {
  const person = await readPerson(ctx, userId);
  await assertMayChange(ctx, person);
  if (person.status !== 'invited') {
    throw new AppError('conflict', 'Only someone who has not accepted yet can be invited again.');
  }
  return sendInvitation(ctx, person, parts);
}

async function placeOf(ctx: Context, orgId: string | undefined): Promise<Place> {
  const { caller } = ctx;
  const into = orgId ?? (caller.scope === 'organization' ? caller.orgId : null);
  if (into === null) return { scope: caller.scope, partnerId: caller.partnerId, orgId: null };
  await assertOrganizationAccess(ctx, into);
  return { scope: 'organization', partnerId: null, orgId: into };
}

async function sendInvitation(ctx: Context, person: Person, { mailer, baseUrl }: InvitationParts) {
  const token = randomBytes(32).toString('base64url');
  await ctx
    .tx('invitations')
    .insert({
      user_id: person.id,
      partner_id: person.partnerId,
      org_id: person.orgId,
      token_hash: tokenHash(token),
      invited_by: ctx.caller.userId,
      expires_at: ctx.tx.raw(`now() + interval '${INVITATION_DAYS} days'`),
    })
    .onConflict('user_id')
    .merge();
  // Behind the # it stays in the browser: no server and no proxy on the way writes it to a log.
  const inviteUrl = `${baseUrl()}/accept-invite#token=${token}`;
  const text = [
    `Hello ${person.name},`,
    `${ctx.caller.name} has invited you to Muster. Accept the invitation here:`,
    inviteUrl,
    `The link works once, for ${INVITATION_DAYS} days. If you did not expect it, do nothing.`,
  ].join('\n\n');
  ctx.afterCommit(() => mailer.post({ to: person.email, subject: 'You are invited to Muster', text }));
  return { ...person, inviteUrl };
}

export interface OpenInvitation {
  userId: string;
  email: string;
  name: string;
  passwordHash: string | null;
  partnerName: string | null;
  orgName: string | null;
}

/** The invitation behind a token, while it stands: not used, not expired, its person neither disabled nor removed. */
export async function openInvitation(tx: Tx, token: string): Promise<OpenInvitation> {
  const [found] = await tx('invitations as i')
    .join('users as u', 'u.id', 'i.user_id')
    .leftJoin('organizations as o', 'o.id', 'i.org_id')
    .leftJoin('partners as p', (join) => void join.on(tx.raw('p.id = coalesce(i.partner_id, o.partner_id)')))
    .where('i.token_hash', tokenHash(token))
    .whereRaw('i.expires_at > now()')
    .where('u.status', '<>', 'disabled')
    .whereNull('o.deleted_at')
    .whereNull('p.deleted_at')
    .select<OpenInvitation[]>({
      userId: 'u.id',
      email: 'u.email',
      name: 'u.name',
      passwordHash: 'u.password_hash',
      partnerName: 'p.name',
      orgName: 'o.name',
    });
  if (found === undefined) throw notFound('Invitation');
  return found;
}

/** Uses the invitation up: of two at once, one gets the account and the other `not_found`. */
export async function takeInvitation(tx: Tx, token: string, passwordHash: string | undefined): Promise<void> {
  const { userId } = await openInvitation(tx, token);
  const taken = await tx('invitations')
    .where({ user_id: userId, token_hash: tokenHash(token) })
    .delete();
  if (taken === 0) throw notFound('Invitation');
  if (passwordHash === undefined) return;
  const updated = await tx('users')
    .where({ id: userId, status: 'invited' })
    .whereNull('password_hash')
    .update({ password_hash: passwordHash, status: 'active', updated_at: tx.fn.now() });
  if (updated === 0) throw notFound('Invitation');
}
