import { type Context, assertActsForWholePartner } from '../../platform/context.ts';
import { containing, nameOrder, inTenant } from '../../platform/db/statement.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { Script } from './script.model.ts';
import { scriptsToRead } from './script.queries.ts';
import type { NewScript, ScriptPatch, ScriptQuery } from './script.schema.ts';

const visible = (ctx: Context) =>
  scriptsToRead(ctx.tx).where((either) => {
    void either.whereRaw(inTenant(ctx.caller, 'scripts.org_id'));
    if (ctx.caller.partnerId !== null) void either.orWhere('scripts.partner_id', ctx.caller.partnerId);
  });

export async function listScripts(ctx: Context, query: ScriptQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const scripts = visible(ctx)
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) {
    void scripts.where((of) => void of.where('org_id', query.orgId ?? null).orWhereNotNull('partner_id'));
  }
  if (query.language !== undefined) void scripts.where('language', query.language);
  if (query.search !== undefined) void scripts.whereILike('name', containing(query.search));
  return toPage(query, await scripts);
}

/** A script that the caller can see, if there is one. */
export const findScriptOf = async (ctx: Context, id: string): Promise<Script | undefined> =>
  visible(ctx).findById(id);

export async function readScript(ctx: Context, id: string): Promise<Script> {
  const script = await findScriptOf(ctx, id);
  if (script === undefined) throw notFound('Script');
  return script;
}

export async function createScript(ctx: Context, { orgId, ...fields }: NewScript): Promise<Script> {
  const { id } = await Script.query(ctx.tx).insert({
    ...omitUndefined(fields),
    ...(await ownerOf(ctx, orgId)),
    createdBy: ctx.caller.userId,
  });
  return readScript(ctx, id);
}

/** A script belongs to an organization, or to the whole partner if it is created in partner scope without one. */
async function ownerOf(
  ctx: Context,
  orgId: string | undefined,
): Promise<{ orgId: string } | { partnerId: string }> {
  const own = orgId ?? ctx.caller.orgId;
  if (own !== null) {
    await assertOrganizationAccess(ctx, own);
    await assertManageable(ctx, own);
    return { orgId: own };
  }
  if (ctx.caller.partnerId === null) throw invalid('body.orgId', 'is required in system scope');
  assertActsForWholePartner(ctx.caller, 'create partner-wide scripts');
  return { partnerId: ctx.caller.partnerId };
}

export async function updateScript(ctx: Context, id: string, patch: ScriptPatch) {
  const script = await readScriptToChange(ctx, id);
  const changes = omitUndefined(patch);
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  await patchRecorded(ctx, script, changes);
  return Object.assign(await readScript(ctx, id), { changedFields });
}

/** Runs that have begun continue: each has its own copy of the script. */
export async function deleteScript(ctx: Context, id: string) {
  const script = await readScriptToChange(ctx, id);
  await script.$query(ctx.tx).delete();
  return { success: true as const, script };
}

async function readScriptToChange(ctx: Context, id: string): Promise<Script> {
  const script = await readScript(ctx, id);
  if (script.orgId !== null) await assertManageable(ctx, script.orgId);
  else assertActsForWholePartner(ctx.caller, 'edit partner-wide scripts');
  return script;
}
