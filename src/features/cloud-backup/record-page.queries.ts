import type { Tx } from '../../platform/db/transaction.ts';
import { newId } from '../../platform/ids.ts';
import type { Fetched } from './fetch-contents.ts';
import type { GraphUser, Kind, Listed, Container } from './item-kind.ts';
import { type Cursor, type Run, within } from './run.ts';
import { shortened } from '../../protocol/index.ts';

interface At {
  kind: Pick<Kind, 'name'>;
  user: GraphUser;
  container: { id: string };
  cursor: Pick<Cursor, 'id' | 'round'>;
}

interface Known {
  id: string;
  externalId: string;
  containerId: string;
  etag: string | null;
  versionId: string | null;
  sha256: Buffer | null;
  isDue: boolean;
  seenRound: number;
  deletedAt: Date | null;
}

export interface Counts {
  items_new: number;
  items_updated: number;
  items_deleted: number;
  items_failed: number;
  bytes_transferred: number;
}

const NOTHING: Counts = {
  items_new: 0,
  items_updated: 0,
  items_deleted: 0,
  items_failed: 0,
  bytes_transferred: 0,
};

/** The items whose content is missing or has changed. */
export async function itemsToFetch(run: Run, at: At, listed: readonly Listed[]): Promise<Listed[]> {
  const ids = listed.map(({ id }) => id);
  const known = await within(run, (tx) => knownItems(tx, run, at, ids));
  return listed.filter((item) => needsContent(item, known.get(item.id)));
}

const needsContent = (item: Listed, known: Known | undefined): boolean =>
  !item.isRemoved &&
  !item.isFolder &&
  (known === undefined ||
    known.versionId === null ||
    known.isDue ||
    (item.etag !== undefined && item.etag !== known.etag));

const keyOf = (run: Run, { kind, user }: Pick<At, 'kind' | 'user'>) => ({
  config_id: run.configId,
  user_id: user.id,
  kind: kind.name,
});

async function knownItems(tx: Tx, run: Run, at: At, ids: readonly string[]): Promise<Map<string, Known>> {
  const rows = await tx('c2c_items as i')
    .leftJoin('c2c_versions as v', (join) => join.on('v.org_id', 'i.org_id').andOn('v.id', 'i.version_id'))
    .where({ 'i.config_id': run.configId, 'i.user_id': at.user.id, 'i.kind': at.kind.name })
    .whereIn('i.external_id', [...ids])
    .select<Known[]>({
      id: 'i.id',
      externalId: 'i.external_id',
      containerId: 'i.container_id',
      etag: 'i.etag',
      versionId: 'i.version_id',
      sha256: 'v.sha256',
      isDue: 'i.is_due',
      seenRound: 'i.seen_round',
      deletedAt: 'i.deleted_at',
    });
  return new Map(rows.map((row) => [row.externalId, row]));
}

/** Records items, their contents and the position of the next page in one transaction. */
export async function recordPage(
  run: Run,
  at: At,
  page: {
    listed: readonly Listed[];
    contents: readonly Fetched[];
    failed: number;
    links: { nextLink: string | undefined; deltaLink: string | undefined } | undefined;
  },
): Promise<{ isNews: boolean }> {
  return within(run, async (tx) => {
    await run.hold(tx);
    const folders = page.listed.filter(({ isFolder, isRemoved }) => isFolder && !isRemoved);
    if (folders.length > 0) await upsertFolders(tx, run, at.user, folders);
    const items = page.listed.filter(({ isFolder }) => !isFolder);
    const ids = items.map(({ id }) => id);
    const known = await knownItems(tx, run, at, ids);
    const paths = await pathsOfFolders(tx, run, at.user, items);
    const contents = new Map(page.contents.map((one) => [one.id, one]));
    const counts: Counts = {
      items_new: 0,
      items_updated: 0,
      items_deleted: 0,
      items_failed: page.failed,
      bytes_transferred: 0,
    };
    let isNews = false;
    const removed: string[] = [];
    for (const item of items) {
      const before = known.get(item.id);
      if (item.isRemoved) {
        // A moved item is removed from its old container, perhaps after it was listed in the new one.
        if (before?.deletedAt === null && before.containerId === at.container.id) removed.push(before.id);
        continue;
      }
      isNews ||= before?.seenRound !== at.cursor.round || before.containerId !== at.container.id;
      await recordItem(
        tx,
        run,
        at,
        { item, before, fetched: contents.get(item.id), path: paths.get(item.id) },
        counts,
      );
    }
    if (removed.length > 0) {
      isNews = true;
      counts.items_deleted += removed.length;
      await tx('c2c_items').whereIn('id', removed).update({ deleted_at: tx.fn.now(), is_due: false });
    }
    isNews ||= folders.length > 0;
    if (page.links !== undefined) {
      await tx('c2c_cursors')
        .where('id', at.cursor.id)
        .update({
          next_link: page.links.nextLink ?? null,
          ...(page.links.nextLink === undefined ? { delta_link: page.links.deltaLink ?? null } : {}),
          updated_at: tx.fn.now(),
        });
    }
    await count(tx, run, at, counts, items.length);
    return { isNews };
  });
}

async function recordItem(
  tx: Tx,
  run: Run,
  at: At,
  {
    item,
    before,
    fetched,
    path,
  }: { item: Listed; before: Known | undefined; fetched: Fetched | undefined; path: string | undefined },
  counts: Counts,
): Promise<void> {
  const id = before?.id ?? newId();
  const content = fetched !== undefined && 'content' in fetched ? fetched.content : undefined;
  const failure = fetched !== undefined && 'failure' in fetched ? fetched.failure : undefined;
  // It was deleted between the list and the request for its content: the next list will show that.
  const isGone = failure?.status === 404;
  const isOther = content !== undefined && before?.sha256?.equals(content.sha256) !== true;
  const version = isOther ? newId() : undefined;
  if (content !== undefined) counts.bytes_transferred += content.bytes;
  if (failure !== undefined && !isGone) counts.items_failed += 1;
  if (isOther && before?.versionId !== null && before !== undefined) counts.items_updated += 1;
  else if (isOther) counts.items_new += 1;
  const parentPath = path ?? item.parentPath;
  const columns = {
    user_email: at.user.email,
    container_id: at.container.id,
    seen_round: at.cursor.round,
    deleted_at: null,
    updated_at: tx.fn.now(),
    ...(item.name === undefined ? {} : { name: item.name }),
    ...(parentPath === undefined ? {} : { parent_path: shortened(parentPath, 2000) }),
    ...(item.metadata === undefined ? {} : { metadata: JSON.stringify(item.metadata) }),
    ...(item.itemDate === undefined ? {} : { item_date: item.itemDate }),
    ...(content === undefined ? {} : { size_bytes: content.bytes, is_due: false, error_code: null }),
    ...(content !== undefined && item.etag !== undefined ? { etag: item.etag } : {}),
    ...(version === undefined ? {} : { version_id: version }),
    ...(failure === undefined ? {} : { is_due: true, error_code: isGone ? null : failure.code }),
  };
  if (before === undefined) {
    await tx('c2c_items').insert({
      name: '',
      parent_path: '',
      ...columns,
      ...keyOf(run, at),
      id,
      org_id: run.orgId,
      external_id: item.id,
    });
  } else await tx('c2c_items').where('id', id).update(columns);
  if (version === undefined || content === undefined) return;
  if (before?.versionId !== null && before !== undefined) {
    await tx('c2c_versions').where('id', before.versionId).update({ superseded_at: tx.fn.now() });
  }
  await tx('c2c_versions').insert({
    id: version,
    org_id: run.orgId,
    item_id: id,
    sha256: content.sha256,
    bytes: content.bytes,
  });
  const blobs = content.blobIds();
  for (let from = 0; from < blobs.length; from += 1000) {
    await tx('c2c_version_blobs').insert(
      blobs.slice(from, from + 1000).map((blobId, index) => ({
        version_id: version,
        org_id: run.orgId,
        position: from + index,
        blob_id: blobId,
      })),
    );
  }
}

const AT_ONCE = 1000;

/** Marks the items of a container as deleted that a complete reading has not found. */
export async function removeUnseen(run: Run, at: At): Promise<void> {
  for (let removed = AT_ONCE; removed === AT_ONCE; ) {
    removed = await within(run, async (tx) => {
      await run.hold(tx);
      const gone = tx('c2c_items')
        .where({ ...keyOf(run, at), container_id: at.container.id })
        .whereNot('seen_round', at.cursor.round)
        .whereNull('deleted_at')
        .limit(AT_ONCE)
        .select('id');
      const rows = await tx('c2c_items')
        .whereIn('id', gone)
        .update({ deleted_at: tx.fn.now(), is_due: false });
      if (rows > 0) await count(tx, run, at, { ...NOTHING, items_deleted: rows }, rows);
      return rows;
    });
  }
}

/** Removes folders that are no longer listed, and marks the items in them as deleted. */
export async function removeAbsentContainers(
  run: Run,
  { kind, user, containers }: { kind: Kind; user: GraphUser; containers: readonly Container[] },
): Promise<void> {
  const key = { config_id: run.configId, user_id: user.id, kind: kind.name };
  const gone = await within(run, (tx) =>
    tx('c2c_cursors')
      .where(key)
      .whereNotIn(
        'container_id',
        containers.map(({ id }) => id),
      )
      .select<{ id: string; container: string }[]>({ id: 'id', container: 'container_id' }),
  );
  for (const { id, container } of gone) {
    await removeUnseen(run, { kind, user, container: { id: container }, cursor: { id, round: -1 } });
    await within(run, (tx) => tx('c2c_cursors').where('id', id).delete());
  }
}

export async function count(
  tx: Tx,
  run: Run,
  { kind, user }: Pick<At, 'kind' | 'user'>,
  counts: Counts,
  processed: number,
): Promise<void> {
  const more = Object.fromEntries(
    Object.entries(counts).map(([name, value]) => [name, tx.raw('?? + ?', [name, value])]),
  );
  await tx('c2c_outcomes').where({ job_id: run.jobId, user_email: user.email, kind: kind.name }).update(more);
  await tx('c2c_job_facts')
    .where('id', run.jobId)
    .update({
      ...more,
      items_processed: tx.raw('items_processed + ?', [processed]),
      phase: shortened(`${kind.name} ${user.email}`, 50),
    });
}

/** Folders of a drive, which determine the paths of files. */

async function upsertFolders(tx: Tx, run: Run, user: GraphUser, folders: readonly Listed[]): Promise<void> {
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

/** The paths of items, by the id of the item. */
async function pathsOfFolders(
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
