import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { invalid, notFound } from '../../../platform/errors.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import { findMatching } from './find-matching.ts';
import { CloudItem } from './item.model.ts';
import type { ItemQuery } from './item.schema.ts';

/** Items of configurations that are being removed are hidden with them. */
export const accessibleItems = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  CloudItem.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'c2c_items.org_id'))
    .whereRaw(
      'not exists (select from c2c_configs c where c.id = c2c_items.config_id and c.removing_since is not null)',
    );

export async function listItems(ctx: Context, query: ItemQuery) {
  const { orgId, configId, userEmail, itemType, isDeleted, limit, after } = query;
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const items = accessibleItems(ctx).orderBy('id');
  if (query.search !== undefined) {
    void items.findByIds(await findMatching(ctx, { ...query, search: query.search, limit: limit + 1 }));
  } else {
    void items
      .where(omitUndefined({ org_id: orgId, config_id: configId, user_email: userEmail, kind: itemType }))
      .limit(limit + 1);
    if (isDeleted === true) void items.whereNotNull('deleted_at');
    if (isDeleted === false) void items.whereNull('deleted_at');
    if (after !== undefined) void items.where('id', '>', after);
  }
  const found = await items;
  const page = found.slice(0, limit);
  return { data: page.map(shownItem), nextAfter: found.length > limit ? (page.at(-1)?.id ?? null) : null };
}

export async function findItem(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<CloudItem> {
  const item = await accessibleItems(ctx).findById(id);
  if (item === undefined) throw notFound('Cloud backup item');
  return item;
}

interface VersionRow {
  id: string;
  bytes: string;
  captured_at: Date;
  superseded_at: Date | null;
}

const VERSIONS_MAX = 1000;

export async function listVersions(ctx: Context, itemId: string) {
  const item = await findItem(ctx, itemId);
  const rows = await ctx
    .tx('c2c_versions')
    .where({ org_id: item.orgId, item_id: itemId })
    .orderBy([
      { column: 'captured_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .limit(VERSIONS_MAX + 1)
    .select<VersionRow[]>('id', 'bytes', 'captured_at', 'superseded_at');
  return {
    isCut: rows.length > VERSIONS_MAX,
    data: rows.slice(0, VERSIONS_MAX).map((row) => ({
      id: row.id,
      sizeBytes: row.bytes,
      capturedAt: row.captured_at,
      supersededAt: row.superseded_at,
      isNewest: row.id === item.versionId,
    })),
  };
}

/** The item with an earlier content in place of the newest one. */
export async function withVersion(
  ctx: Pick<Context, 'tx'>,
  item: StoredItem,
  versionId: string,
): Promise<StoredItem> {
  const version = await ctx
    .tx('c2c_versions')
    .where({ org_id: item.orgId, item_id: item.id, id: versionId })
    .first<{ bytes: string } | undefined>('bytes');
  if (version === undefined) throw notFound('Content of the cloud backup item');
  return { ...item, versionId, sizeBytes: version.bytes };
}

/** What an export or a restore needs of an item whose content is stored. */
export type StoredItem = Pick<
  CloudItem,
  'id' | 'orgId' | 'configId' | 'kind' | 'name' | 'userEmail' | 'sizeBytes' | 'itemDate'
> & { versionId: string };

export function asStored(item: CloudItem): StoredItem | undefined {
  const { id, orgId, configId, kind, name, userEmail, sizeBytes, itemDate, versionId } = item;
  if (versionId === null) return undefined;
  return { id, orgId, configId, kind, name, userEmail, sizeBytes, itemDate, versionId };
}

/** All of them, of one organization and with a content. */
export async function findStoredItems(
  ctx: Pick<Context, 'tx' | 'caller'>,
  itemIds: readonly string[],
): Promise<{ orgId: string; configId: string; items: StoredItem[] }> {
  const wanted = [...new Set(itemIds)];
  const items = (await accessibleItems(ctx).findByIds(wanted).orderBy('id')).flatMap(
    (item) => asStored(item) ?? [],
  );
  const [first] = items;
  if (first === undefined || items.length < wanted.length) {
    throw notFound('Cloud backup item, or its content,');
  }
  if (items.some(({ configId }) => configId !== first.configId)) {
    throw invalid('body.itemIds', 'must name items of one configuration');
  }
  return { orgId: first.orgId, configId: first.configId, items };
}

export function shownItem({ kind, name, deletedAt, ...item }: CloudItem) {
  return { ...item, itemType: kind, subjectOrName: name, isDeleted: deletedAt !== null, deletedAt };
}
