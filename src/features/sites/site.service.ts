import { siteExists } from './site.queries.ts';
import type { Context } from '../../platform/context.ts';
import { nameOrder, inTenant } from '../../platform/db/statement.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { Site } from './site.model.ts';
import type { NewSite, SitePatch, SiteQuery } from './site.schema.ts';

const accessible = (ctx: Context) => Site.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'sites.org_id'));

export async function listSites(ctx: Context, query: SiteQuery) {
  const orgId = query.orgId ?? query.organizationId;
  const sites = accessible(ctx)
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  if (orgId !== undefined) {
    await assertOrganizationAccess(ctx, orgId);
    void sites.where('org_id', orgId);
  }
  return toPage(query, await sites);
}

export async function readSite(ctx: Context, id: string): Promise<Site> {
  const site = await accessible(ctx).findById(id);
  if (site !== undefined) return site;
  // SPEC 5.6: a site of another tenant is refused, one that does not exist is not found.
  if (await siteExists(ctx.tx, id)) throw new AppError('forbidden', 'Access to this site denied');
  throw notFound('Site');
}

export async function createSite(ctx: Context, input: NewSite): Promise<Site> {
  await assertOrganizationAccess(ctx, input.orgId);
  return Site.query(ctx.tx).insertAndFetch(omitUndefined(input));
}

export async function updateSite(ctx: Context, id: string, { orgId, ...patch }: SitePatch) {
  const site = await readSite(ctx, id);
  if (orgId !== undefined && orgId !== site.orgId) throw invalid('body.orgId', 'cannot be changed');
  const changes = omitUndefined(patch);
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  return Object.assign(await patchRecorded(ctx, site, changes), { changedFields });
}

/** For good. A site that still has devices stays. */
export async function deleteSite(ctx: Context, id: string) {
  const site = await readSite(ctx, id);
  const device = await ctx.tx('devices').where({ org_id: site.orgId, site_id: id }).first('id');
  if (device !== undefined) {
    throw new AppError('conflict', 'This site still has devices. Move or remove them first.');
  }
  await site.$query(ctx.tx).delete();
  return { success: true as const, site };
}

/** The site a device goes to when its enrollment key names none: the organization's first, made if there is none. */
export async function firstSiteOf(tx: Tx, orgId: string): Promise<string> {
  const first = await Site.query(tx).where({ org_id: orgId }).orderBy(['created_at', 'id']).first();
  return first?.id ?? (await Site.query(tx).insert({ orgId, name: 'Default' })).id;
}
