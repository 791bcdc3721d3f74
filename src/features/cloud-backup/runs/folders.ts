import type { Tx } from '../../../platform/db/transaction.ts';
import type { GraphUser, Listed } from '../kinds/kind.ts';
import type { Run } from './run.ts';

/** Folders of a drive, from which the paths of files follow. */

export async function rememberFolders(
  tx: Tx,
  run: Run,
  user: GraphUser,
  folders: readonly Listed[],
): Promise<void> {
  await tx('c2c_folders')
    .insert(
      folders.map(({ id, parentId, name }) => ({
        org_id: run.orgId,
        config_id: run.configId,
        user_id: user.id,
        external_id: id,
        parent_id: parentId ?? null,
        name: name ?? '',
      })),
    )
    .onConflict(['config_id', 'user_id', 'external_id'])
    .merge(['parent_id', 'name']);
}

const DEPTH_MAX = 100;

/** By the id of the item. */
export async function pathsOfFolders(
  tx: Tx,
  { configId }: Run,
  user: GraphUser,
  items: readonly Listed[],
): Promise<Map<string, string>> {
  const parents = [...new Set(items.flatMap(({ parentId }) => parentId ?? []))];
  if (parents.length === 0) return new Map();
  const { rows } = await tx.raw<{ rows: { id: string; path: string }[] }>(
    `with recursive above as (
      select f.external_id as id, f.parent_id, case when f.name = '' then '' else '/' || f.name end as path, 1 as depth
      from c2c_folders f
      where f.config_id = :configId and f.user_id = :userId and f.external_id = any(:parents)
      union all
      select a.id, f.parent_id, case when f.name = '' then '' else '/' || f.name end || a.path, a.depth + 1
      from above a join c2c_folders f
        on f.config_id = :configId and f.user_id = :userId and f.external_id = a.parent_id
      where a.depth < ${DEPTH_MAX})
    select distinct on (id) id, left(path, 2000) as path from above order by id, depth desc`,
    { configId, userId: user.id, parents } as never,
  );
  const paths = new Map(rows.map(({ id, path }) => [id, path]));
  return new Map(
    items.flatMap(({ id, parentId }) => {
      const path = parentId === undefined ? undefined : paths.get(parentId);
      return path === undefined ? [] : [[id, path || '/']];
    }),
  );
}
