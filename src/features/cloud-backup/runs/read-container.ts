import { newId } from '../../../platform/ids.ts';
import { ContentWriter } from '../content/content-writer.ts';
import { GraphError } from '../graph/graph-error.ts';
import { type Container, GraphPage, type GraphUser, type Kind, type Listed } from '../kinds/kind.ts';
import { fetchContents } from './contents.ts';
import { recordPage, removeUnseen } from './record-page.ts';
import { type Cursor, holdJob, type Run, within } from './run.ts';

/** After so many pages in a row without news, the list is considered one without an end. */
const STALE_PAGES_MAX = 100;
/** Contents of so many items are fetched before they are recorded: what is lost with a server is no more. */
const ITEMS_AT_ONCE = 50;

/** Reads what is new in a container, page by page. Each page is recorded together with the place of the next one. */
export async function readContainer(
  run: Run,
  { kind, user, container }: { kind: Kind; user: GraphUser; container: Container },
): Promise<void> {
  let cursor = await openCursor(run, { kind, user, container });
  if (cursor === undefined) return;
  const writer = new ContentWriter(run.parts, run);
  let hasRestarted = false;
  for (let stalePages = 0; stalePages < STALE_PAGES_MAX; ) {
    const place: string = cursor.nextLink ?? cursor.deltaLink ?? kind.firstPage(user, container);
    const page = await run.graph.json(place, GraphPage).catch((error: unknown) => {
      if (!(error instanceof GraphError) || !isExpired(error)) throw error;
      return undefined;
    });
    if (page === undefined) {
      // The token is not known any more: everything is read again, and known items are recognized.
      if (hasRestarted || (cursor.nextLink === null && cursor.deltaLink === null)) {
        throw new GraphError('RESYNC_FAILED', 'Microsoft Graph does not accept its own links.');
      }
      hasRestarted = true;
      cursor = await restart(run, cursor);
      continue;
    }
    const { listed, failed } = readRecords(kind, container, page.value);
    const nextLink = page['@odata.nextLink'];
    const deltaLink = page['@odata.deltaLink'];
    if (nextLink === undefined && deltaLink === undefined && kind.hasDelta) {
      throw new GraphError('GRAPH_ANSWER_INVALID', 'Microsoft Graph gave a list without an end.');
    }
    // Checked now, because a link that is stored has to be usable.
    for (const link of [nextLink, deltaLink]) if (link !== undefined) run.graph.url(link);
    const at = { kind, user, container, cursor, writer };
    const { isNews } = await recordItems(run, at, { listed, failed, nextLink, deltaLink });
    if (nextLink === undefined) return;
    stalePages = isNews || nextLink === place ? (nextLink === place ? STALE_PAGES_MAX : 0) : stalePages + 1;
    cursor = { ...cursor, nextLink };
  }
  throw new GraphError('ENDLESS_LIST', 'Microsoft Graph lists the same items again and again.');
}

interface At {
  kind: Kind;
  user: GraphUser;
  container: Container;
  cursor: Cursor;
  writer: ContentWriter;
}

interface Page {
  listed: Listed[];
  failed: number;
  nextLink: string | undefined;
  deltaLink: string | undefined;
}

/** The links are stored with the last items of the page only: a page that was interrupted is read again. */
async function recordItems(
  run: Run,
  at: At,
  { listed, failed, ...links }: Page,
): Promise<{ isNews: boolean }> {
  let isNews = false;
  for (let from = 0; from === 0 || from < listed.length; from += ITEMS_AT_ONCE) {
    const some = listed.slice(from, from + ITEMS_AT_ONCE);
    const isLast = from + ITEMS_AT_ONCE >= listed.length;
    const due = await recordPage.due(run, at, some);
    const contents = await fetchContents({ graph: run.graph, ...at }, due);
    const recorded = await recordPage(run, at, {
      listed: some,
      contents,
      failed: isLast ? failed : 0,
      links: isLast ? links : undefined,
    });
    isNews ||= recorded.isNews;
  }
  if (links.nextLink === undefined && at.cursor.isWhole) await removeUnseen(run, at);
  if (links.nextLink === undefined) {
    await within(run, async (tx) => {
      await holdJob(tx, run);
      await tx('c2c_cursors').where('id', at.cursor.id).update({ done_in: run.jobId });
    });
  }
  return { isNews };
}

/** Of a page that names an item twice, the last counts. A record that is none is counted, and stops nothing. */
function readRecords(kind: Kind, container: Container, records: readonly unknown[]) {
  const listed = new Map<string, Listed>();
  let failed = 0;
  for (const record of records) {
    try {
      const item = kind.read(record, container);
      if (item === undefined) continue;
      listed.delete(item.id);
      listed.set(item.id, item);
    } catch {
      failed += 1;
    }
  }
  return { listed: [...listed.values()], failed };
}

const EXPIRED: ReadonlySet<string> = new Set([
  'syncStateNotFound',
  'SyncStateNotFound',
  'resyncRequired',
  'SyncStateInvalid',
]);
const isExpired = ({ status, code }: GraphError) => status === 410 || EXPIRED.has(code);

const COLUMNS = {
  id: 'id',
  round: 'round',
  isWhole: 'is_whole',
  nextLink: 'next_link',
  deltaLink: 'delta_link',
};

/** `undefined` where the run has read the container already. */
function openCursor(
  run: Run,
  { kind, user, container }: Pick<At, 'kind' | 'user' | 'container'>,
): Promise<Cursor | undefined> {
  const key = { config_id: run.configId, user_id: user.id, kind: kind.name, container_id: container.id };
  return within(run, async (tx) => {
    await holdJob(tx, run);
    const found = await tx('c2c_cursors')
      .where(key)
      .first<(Cursor & { doneIn: string | null }) | undefined>({ ...COLUMNS, doneIn: 'done_in' });
    if (found?.doneIn === run.jobId) return undefined;
    if (found === undefined) {
      const made: Cursor = { id: newId(), round: 1, isWhole: true, nextLink: null, deltaLink: null };
      await tx('c2c_cursors').insert({ ...key, id: made.id, org_id: run.orgId, round: 1, is_whole: true });
      return made;
    }
    // A reading that was interrupted goes on.
    if (found.nextLink !== null) return found;
    return begin(tx, found, found.deltaLink);
  });
}

const restart = (run: Run, cursor: Cursor): Promise<Cursor> =>
  within(run, async (tx) => {
    await holdJob(tx, run);
    return begin(tx, cursor, null);
  });

async function begin(
  tx: Parameters<typeof holdJob>[0],
  cursor: Cursor,
  deltaLink: string | null,
): Promise<Cursor> {
  const next = { ...cursor, round: cursor.round + 1, isWhole: deltaLink === null, nextLink: null, deltaLink };
  await tx('c2c_cursors').where('id', cursor.id).update({
    round: next.round,
    is_whole: next.isWhole,
    next_link: null,
    delta_link: deltaLink,
    updated_at: tx.fn.now(),
  });
  return next;
}
