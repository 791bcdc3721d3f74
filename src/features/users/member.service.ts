import type { Context } from '../../platform/context.ts';
import { containing, nameOrder } from '../../platform/db/statement.ts';
import { AppError } from '../../platform/errors.ts';
import type { Mailer } from '../../platform/mail.ts';
import type { Page } from '../../platform/http/pagination.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import {
  assertAdministratorRemains,
  assertMayChange,
  changeMembership,
  grantFor,
  isAdministrator,
  lockAdministrators,
  removeMembership,
} from './membership.service.ts';
import { changeInvitation } from './invitation.service.ts';
import { readMember, selectMembers, visibleMembers, type Member, type Tenant } from './user.queries.ts';
import { User } from './user.model.ts';
import { endSessionsOf } from './user.service.ts';
import type { OwnChange, RoleAssignment, UserChange, UserQuery } from './user.schema.ts';
import type { Tx } from '../../platform/db/transaction.ts';

/** Keeps the way into a tenant that remains when its identity provider fails. Single sign-on implements it. */
export interface BreakGlassGuard {
  /**
   * Call it after a change by which a member may lose the way in by password. Throws `conflict`, which rolls the change
   * back, if no user would be left who has it although single sign-on is enforced.
   */
  assertRemains(tx: Tx, member: { id: string } & Omit<Tenant, 'scope'>): Promise<void>;
}

export interface MemberGuards {
  breakGlassGuard: BreakGlassGuard;
  /** Throws `mfa_required` unless the caller has given their second factor in this session a short time ago. */
  assertFreshSecondFactor(ctx: Context, what: string): Promise<void>;
}

export async function listMembers(ctx: Context, query: UserQuery): Promise<Page<Member>> {
  const matching = visibleMembers(ctx);
  if (query.orgId !== undefined) {
    await assertOrganizationAccess(ctx, query.orgId);
    void matching.where('p.org_id', query.orgId);
  }
  if (query.status !== undefined) void matching.where('p.status', query.status);
  if (query.search !== undefined) {
    const pattern = containing(query.search);
    void matching.where(
      (either) => void either.whereILike('p.name', pattern).orWhereILike('p.email', pattern),
    );
  }
  const [counted] = await matching.clone().count<{ count: string }[]>('* as count');
  const page = matching
    .orderByRaw(`${nameOrder('p.name')}, p.id`)
    .offset((query.page - 1) * query.limit)
    .limit(query.limit);
  return {
    data: await selectMembers(page),
    pagination: { page: query.page, limit: query.limit, total: Number(counted?.count ?? 0) },
  };
}

export const readSelf = (ctx: Context) => readMember(ctx, ctx.caller.userId);

export async function changeSelf(ctx: Context, { name }: OwnChange): Promise<Member> {
  const before = await readSelf(ctx);
  await User.query(ctx.tx).findById(ctx.caller.userId).patch({ name });
  return recorded(ctx, before, await readSelf(ctx));
}

export async function changeMember(
  ctx: Context,
  id: string,
  change: UserChange,
  guards: MemberGuards,
): Promise<Member> {
  const before = await checkedChange(ctx, id, guards, async (member) => {
    if (change.status === 'active' && member.status === 'disabled' && ctx.caller.kind === 'api_key') {
      throw new AppError('forbidden', 'API keys cannot enable users. Sign in instead.');
    }
    if (member.isInvitation) await changeInvitation(ctx, member, change);
    else await changeAccount(ctx, member, change);
  });
  return recorded(ctx, before, await readMember(ctx, id));
}

/** Records the fields that PATCH can change, before and after. */
function recorded(ctx: Context, before: Member, after: Member): Member {
  const changeable = ({ name, status }: Member) => ({ name, status });
  ctx.recordChange(changeable(before), changeable(after));
  return after;
}

async function changeAccount(ctx: Context, { id, name, status }: Member, change: UserChange): Promise<void> {
  await User.query(ctx.tx)
    .findById(id)
    .patch({ name: change.name ?? name, status: change.status ?? status });
  if (change.status === 'disabled') await endSessionsOf(ctx.tx, id, 'user_disabled');
}

/**
 * Removes a member from their tenant, or withdraws an invitation. The account stays and is enabled: being disabled belongs
 * to the membership in this tenant, and must not carry over to the next one.
 */
export async function removeMember(
  ctx: Context,
  id: string,
  guards: MemberGuards,
): Promise<{ success: true; member: Member }> {
  const member = await checkedChange(ctx, id, guards, async (member) => {
    if (!member.isInvitation) {
      // Written while the caller can still see the user.
      await endSessionsOf(ctx.tx, id, 'user_removed');
      await User.query(ctx.tx).findById(id).patch({ status: 'active' });
    }
    await removeMembership(ctx, member);
  });
  return { success: true, member };
}

export async function assignRole(ctx: Context, id: string, wanted: RoleAssignment, guards: MemberGuards) {
  const before = await checkedChange(ctx, id, guards, async (member) => {
    const { roleId, orgIds } = member;
    const now = { roleId, orgAccess: member.orgAccess ?? ('none' as const), orgIds };
    await changeMembership(ctx, member, await grantFor(ctx, member, wanted, now));
  });
  return { ...(await readMember(ctx, id)), before };
}

/**
 * Removes all second factors of a member who has lost them. The password stays, and is all that the next sign-in asks for.
 * Their API keys stay as well, because they never needed a second factor.
 */
export async function resetSecondFactors(
  ctx: Context,
  id: string,
  { mailer, ...guards }: MemberGuards & { mailer: Mailer },
): Promise<Member> {
  if (id === ctx.caller.userId) {
    throw new AppError('forbidden', 'Remove your own second factors on your profile.');
  }
  await guards.assertFreshSecondFactor(ctx, 'Removing the second factors of a user');
  const before = await checkedChange(ctx, id, guards, async (member) => {
    if (!member.mfaEnabled) throw new AppError('conflict', 'This user has no second factor.');
    // The database removes the factors, and sign-ins that wait for them, with the mark on the account.
    await User.query(ctx.tx).findById(id).patch({ mfaEnabled: false });
    await endSessionsOf(ctx.tx, id, 'mfa_reset');
    await mailer.send(ctx.tx, factorsRemoved(member, ctx.caller.name), { partnerId: ctx.caller.partnerId });
  });
  ctx.recordChange({ mfaEnabled: true }, { mfaEnabled: false });
  return { ...before, mfaEnabled: false };
}

const factorsRemoved = ({ email, name }: Member, administrator: string) => ({
  to: email,
  subject: 'The second factors of your Muster account were removed',
  text: [
    `Hello ${name},`,
    `${administrator} has just removed the second factors of your Muster account: authenticator app, recovery codes and passkeys. Your sessions have ended. Sign in with your password, and set up a new second factor on your profile.`,
    'If you did not ask for this, change your password, and tell your administrator.',
  ].join('\n\n'),
});

/**
 * Makes one change of one member: checks that the caller may make it, and afterwards that the tenant still has an
 * administrator, and a user who can sign in without its identity provider.
 * @returns the member as they were before
 */
async function checkedChange(
  ctx: Context,
  id: string,
  { breakGlassGuard }: MemberGuards,
  change: (member: Member) => Promise<void>,
): Promise<Member> {
  const seen = await readMember(ctx, id);
  await lockAdministrators(ctx, seen);
  const member = await readMember(ctx, id);
  if (member.scope !== seen.scope || member.partnerId !== seen.partnerId || member.orgId !== seen.orgId) {
    throw new AppError('conflict', 'This user has just changed to another tenant. Try again.');
  }
  if (ctx.caller.kind === 'api_key' && id === ctx.caller.userId) {
    throw new AppError('forbidden', 'An API key cannot change the account of its creator.');
  }
  await assertMayChange(ctx, member);
  await change(member);
  if (isAdministrator(member)) {
    await assertAdministratorRemains(ctx, member);
    await breakGlassGuard.assertRemains(ctx.tx, member);
  }
  return member;
}
