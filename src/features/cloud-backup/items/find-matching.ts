import type { Context } from '../../../platform/context.ts';
import { containing } from '../../../platform/db/like-pattern.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import type { ItemQuery } from './item.schema.ts';

/**
 * The ids of the first items in which each word is found. Of each configuration, Postgres reads the index
 * `c2c_items_search` in the order of the answer until there is enough: a frequent word costs nothing, and a rare one the
 * part of the index that is about these configurations. Other columns than those of the index would have it read the
 * items themselves, which are many times as large.
 */
export async function findMatching(
  { caller, tx }: Pick<Context, 'caller' | 'tx'>,
  {
    search,
    orgId,
    configId,
    userEmail,
    itemType,
    isDeleted,
    after,
    limit,
  }: Omit<ItemQuery, 'search'> & { search: readonly string[] },
): Promise<string[]> {
  const words = search.map((word, place) => [`word${place}`, containing(word)] as const);
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select found.id from c2c_configs c cross join lateral (
      select i.id from c2c_items i where i.org_id = c.org_id and i.config_id = c.id
        ${words.map(([name]) => `and i.search_text like lower(:${name})`).join(' ')}
        and (cast(:after as uuid) is null or i.id > cast(:after as uuid))
        and (cast(:userEmail as text) is null or i.user_email = :userEmail)
        and (cast(:itemType as text) is null or i.kind = :itemType)
        and (cast(:isDeleted as boolean) is null or (i.deleted_at is not null) = cast(:isDeleted as boolean))
      order by i.id limit :limit) found
    where ${inTenant(caller, 'c.org_id')} and c.removing_since is null
      and (cast(:orgId as uuid) is null or c.org_id = cast(:orgId as uuid))
      and (cast(:configId as uuid) is null or c.id = cast(:configId as uuid))
    order by found.id limit :limit`,
    {
      ...Object.fromEntries(words),
      after: after ?? null,
      userEmail: userEmail ?? null,
      itemType: itemType ?? null,
      isDeleted: isDeleted ?? null,
      orgId: orgId ?? null,
      configId: configId ?? null,
      limit,
    },
  );
  return rows.map(({ id }) => id);
}
