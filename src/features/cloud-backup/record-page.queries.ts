import type { Tx } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import type { GraphUser, Kind, Listed } from '../kinds/kind.ts';
import type { Fetched } from './contents.ts';
import { pathsOfFolders, rememberFolders } from './folders.ts';
import { type Cursor, holdJob, type Run, within } from './run.ts';

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

const needsContent = (item: Listed, known: Known | undefined): boolean =>
  !item.isRemoved &&
  !item.isFolder &&
  (known === undefined ||
    known.versionId === null ||
    known.isDue ||
    (item.etag !== undefined && item.etag !== known.etag));

/** The items whose content is not there, or has changed. */
recordPage.due = async (run: Run, at: At, listed: readonly Listed[]): Promise<Listed[]> => {
  const ids = listed.map(({ id }) => id);
  const known = await within(run, (tx) => knownItems(tx, run, at, ids));
  return listed.filter((item) => needsContent(item, known.get(item.id)));
};

/** Records items, their contents and the place of the next page in one transaction: all of it happened, or nothing. */
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
    await holdJob(tx, run);
    const folders = page.listed.filter(({ isFolder, isRemoved }) => isFolder && !isRemoved);
    if (folders.length > 0) await rememberFolders(tx, run, at.user, folders);
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
        // An item that has moved is removed from where it was, perhaps after it was listed where it is.
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
  // It was removed between the list and the question for its content: the next list says so.
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
    ...(parentPath === undefined ? {} : { parent_path: parentPath.slice(0, 2000) }),
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

/** After a whole reading: what it has not met in this container is gone. */
export async function removeUnseen(run: Run, at: At): Promise<void> {
  for (let removed = AT_ONCE; removed === AT_ONCE; ) {
    removed = await within(run, async (tx) => {
      await holdJob(tx, run);
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

const NOTHING: Counts = {
  items_new: 0,
  items_updated: 0,
  items_deleted: 0,
  items_failed: 0,
  bytes_transferred: 0,
};

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
  await tx('c2c_jobs')
    .where('id', run.jobId)
    .update({
      ...more,
      items_processed: tx.raw('items_processed + ?', [processed]),
      phase: `${kind.name} ${user.email}`.slice(0, 50),
      updated_at: tx.fn.now(),
    });
}
