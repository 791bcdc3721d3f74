import type { Context } from '../../../platform/context.ts';
import { containing } from '../../../platform/db/like-pattern.ts';
import { nameOrder } from '../../../platform/db/name-order.ts';
import { AppError } from '../../../platform/errors.ts';
import type { Page } from '../../../platform/http/pagination.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import {
  assertAdministratorRemains,
  assertMayChange,
  changeMembership,
  grantFor,
  isAdministrator,
  lockAdministrators,
  removeMembership,
} from './membership.service.ts';
import { changeInvitation } from '../invitations/invitation.service.ts';
import { readPerson, selectPeople, visiblePeople, type Person } from './member.queries.ts';
import { User } from '../accounts/user.model.ts';
import { endSessionsOf } from '../accounts/user-sessions.ts';
import type { OwnChange, RoleAssignment, UserChange, UserQuery } from '../user.schema.ts';

export async function listPeople(ctx: Context, query: UserQuery): Promise<Page<Person>> {
  const matching = visiblePeople(ctx);
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
    data: await selectPeople(page),
    pagination: { page: query.page, limit: query.limit, total: Number(counted?.count ?? 0) },
  };
}

export const readSelf = (ctx: Context) => readPerson(ctx, ctx.caller.userId);

export async function changeSelf(ctx: Context, { name }: OwnChange): Promise<Person> {
  const before = await readSelf(ctx);
  await User.query(ctx.tx).findById(ctx.caller.userId).patch({ name });
  return recorded(ctx, before, await readSelf(ctx));
}

export async function changePerson(ctx: Context, id: string, change: UserChange): Promise<Person> {
  const before = await changing(ctx, id, async (person) => {
    if (change.status === 'active' && person.status === 'disabled' && ctx.caller.kind === 'api_key') {
      throw new AppError('forbidden', 'An API key cannot enable a person. Sign in as a person.');
    }
    if (person.isInvitation) await changeInvitation(ctx, person, change);
    else await changeAccount(ctx, person, change);
  });
  return recorded(ctx, before, await readPerson(ctx, id));
}

/** What PATCH can change of a person, before and after. */
function recorded(ctx: Context, before: Person, after: Person): Person {
  const changeable = ({ name, status }: Person) => ({ name, status });
  ctx.recordChange(changeable(before), changeable(after));
  return after;
}

async function changeAccount(ctx: Context, { id, name, status }: Person, change: UserChange): Promise<void> {
  await User.query(ctx.tx)
    .findById(id)
    .patch({ name: change.name ?? name, status: change.status ?? status });
  if (change.status === 'disabled') await endSessionsOf(ctx.tx, id, 'user_disabled');
}

/**
 * Takes a person out of where they belong, or takes an invitation back. The account stays, enabled: it is disabled as
 * a member of this place, and must not remain so in the next.
 */
export async function removePerson(ctx: Context, id: string): Promise<{ success: true; person: Person }> {
  const person = await changing(ctx, id, async (person) => {
    if (!person.isInvitation) {
      // Written while the person is still the caller's to see.
      await endSessionsOf(ctx.tx, id, 'user_removed');
      await User.query(ctx.tx).findById(id).patch({ status: 'active' });
    }
    await removeMembership(ctx, person);
  });
  return { success: true, person };
}

export async function assignRole(ctx: Context, id: string, wanted: RoleAssignment) {
  const before = await changing(ctx, id, async (person) => {
    const { roleId, orgIds } = person;
    const now = { roleId, orgAccess: person.orgAccess ?? ('none' as const), orgIds };
    await changeMembership(ctx, person, await grantFor(ctx, person, wanted, now));
  });
  return { ...(await readPerson(ctx, id)), before };
}

/**
 * One change of one person, who is answered as they were before. Who may do it, and that an administrator is left,
 * are settled around it.
 */
async function changing(
  ctx: Context,
  id: string,
  change: (person: Person) => Promise<void>,
): Promise<Person> {
  const seen = await readPerson(ctx, id);
  await lockAdministrators(ctx, seen);
  const person = await readPerson(ctx, id);
  if (person.scope !== seen.scope || person.partnerId !== seen.partnerId || person.orgId !== seen.orgId) {
    throw new AppError('conflict', 'Someone else has just moved this person. Try again.');
  }
  if (ctx.caller.kind === 'api_key' && id === ctx.caller.userId) {
    throw new AppError('forbidden', 'An API key cannot change the account of the person who made it.');
  }
  await assertMayChange(ctx, person);
  await change(person);
  if (isAdministrator(person)) await assertAdministratorRemains(ctx, person);
  return person;
}
