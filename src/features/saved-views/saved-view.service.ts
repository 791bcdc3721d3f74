import type { Context } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { AppError, noFields, notFound } from '../../platform/errors.ts';
import { nameOrder } from '../../platform/db/statement.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { SavedView as Model } from './saved-view.model.ts';
import type { NewSavedView, SavedView, SavedViewPatch, SavedViewQuery } from './saved-view.schema.ts';

/** Of one person, over all lists of one tenant. */
const VIEWS_MAX = 200;

const named = <T>(work: PromiseLike<T>): Promise<T> =>
  namingConflict(work, 'saved_views_name', 'body.name', 'You have another view of this list with this name.');

/** The tenant that a caller acts for. Views of another one would name what is not there. */
const tenantOf = ({ scope, partnerId, orgId }: Context['caller']) => ({
  partnerId: scope === 'partner' ? partnerId : null,
  orgId: scope === 'organization' ? orgId : null,
});

function inTenant({ tx, caller }: Context) {
  const { partnerId, orgId } = tenantOf(caller);
  return Model.query(tx)
    .whereRaw('saved_views.partner_id is not distinct from ?::uuid', [partnerId])
    .whereRaw('saved_views.org_id is not distinct from ?::uuid', [orgId]);
}

/** The caller's own views of a list, and those that colleagues share, by name. */
export async function listViews(ctx: Context, { list }: SavedViewQuery): Promise<{ data: SavedView[] }> {
  const { userId } = ctx.caller;
  const views = await inTenant(ctx)
    .where({ list })
    .where((either) => void either.where('user_id', userId).orWhere('is_shared', true))
    .withGraphFetched('owner(onlyName)')
    .modifiers({ onlyName: (users) => void users.select('users.id', 'users.name') })
    .orderByRaw(`${nameOrder('saved_views.name')}, saved_views.id`);
  return { data: views.map((view) => toResponse(ctx, view)) };
}

export async function createView(ctx: Context, input: NewSavedView) {
  const { userId } = ctx.caller;
  const count = await inTenant(ctx).where('user_id', userId).resultSize();
  if (count >= VIEWS_MAX) {
    throw new AppError('limit_reached', `You can have ${VIEWS_MAX} views. Delete some first.`);
  }
  const added = Model.query(ctx.tx).insertAndFetch({ ...input, ...tenantOf(ctx.caller), userId });
  return toResponse(ctx, await named(added));
}

export async function updateView(ctx: Context, id: string, patch: SavedViewPatch) {
  const view = await ownView(ctx, id);
  const changes = omitUndefined(patch);
  if (Object.keys(changes).length === 0) throw noFields();
  return toResponse(ctx, await named(patchRecorded(ctx, view, changes)));
}

export async function deleteView(ctx: Context, id: string) {
  const view = await ownView(ctx, id);
  await view.$query(ctx.tx).delete();
  return { success: true as const, name: view.name };
}

async function ownView(ctx: Context, id: string): Promise<Model> {
  const view = await inTenant(ctx).findById(id).where('user_id', ctx.caller.userId);
  if (view === undefined) throw notFound('Saved view');
  return view;
}

function toResponse({ caller }: Context, view: Model & { owner?: { name: string } }): SavedView {
  const { id, userId, list, name, search, isShared, updatedAt } = view;
  const isOwn = userId === caller.userId;
  // A colleague of another membership may not be visible any more.
  const ownerName = isOwn ? caller.name : (view.owner?.name ?? 'A colleague');
  return { id, list, name, search, isShared, isOwn, ownerName, updatedAt: updatedAt.toISOString() };
}
