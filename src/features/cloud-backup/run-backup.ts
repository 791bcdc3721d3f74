import { z } from 'zod';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { CloudConfig } from './cloud-backup.model.ts';
import { countOutcomes, endOutcome } from './cloud-backup.queries.ts';
import { ContentWriter } from './content-store.ts';
import { fetchContents } from './fetch-contents.ts';
import { GraphError, isOfConnection, Postponed, type GraphClient } from './graph-client.ts';
import { KINDS } from './graph-kinds.ts';
import {
  type Container,
  GraphId,
  type GraphUser,
  type Kind,
  type KindName,
  listAll,
  partOf,
  type Listed,
  removedItem,
  GraphPage,
} from './item-kind.ts';
import { removeAbsentContainers, recordPage, itemsToFetch, removeUnseen } from './record-page.queries.ts';
import { type Run, within, type Cursor } from './run.ts';
import { newId } from '../../platform/ids.ts';
import { shortened } from '../../protocol/index.ts';

/** Users of a configuration that are read at once. */
const USERS_AT_ONCE = 3;

/** A missing mailbox or drive is not a failure: not every user has one. */
const ABSENT: ReadonlySet<string> = new Set([
  'MailboxNotEnabledForRESTAPI',
  'MailboxNotSupportedForRESTAPI',
  'ResourceNotFound',
  'itemNotFound',
  'notFound',
]);

interface Work {
  email: string;
  kind: KindName;
}

/** One user's failure never stops the run. */
export async function runBackup(
  run: Run,
  config: CloudConfig,
): Promise<{ status: 'completed' | 'partial' | 'failed'; code?: string; message?: string }> {
  const users = new UsersByEmail(run.graph);
  const emails = config.allUsers ? await users.all() : config.targetUsers;
  const open = await planWork(run, emails, config.backupScope);
  const waiting = new Map<string, Work[]>();
  for (const work of open) waiting.set(work.email, [...(waiting.get(work.email) ?? []), work]);
  const queue = [...waiting.values()];
  const next = async () => {
    for (let works = queue.shift(); works !== undefined; works = queue.shift()) {
      for (const work of works) await doWork(run, users, work);
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: USERS_AT_ONCE }, next));
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  return endOf(run);
}

/** Returns the remaining work, also for a server that takes the run over. */
const planWork = (run: Run, emails: readonly string[], kinds: readonly KindName[]): Promise<Work[]> =>
  within(run, async (tx) => {
    await run.hold(tx);
    for (let from = 0; from < emails.length; from += 500) {
      const rows = emails
        .slice(from, from + 500)
        .flatMap((email) =>
          kinds.map((kind) => ({ job_id: run.jobId, org_id: run.orgId, user_email: email, kind })),
        );
      await tx('c2c_outcomes').insert(rows).onConflict(['job_id', 'user_email', 'kind']).ignore();
    }
    await tx('c2c_job_facts')
      .where('id', run.jobId)
      .update({ parts_total: tx('c2c_outcomes').where('job_id', run.jobId).count('*') });
    return tx('c2c_outcomes')
      .where('job_id', run.jobId)
      .whereIn('status', ['pending', 'running'])
      .orderBy(['user_email', 'kind'])
      .select<Work[]>({ email: 'user_email', kind: 'kind' });
  });

async function doWork(run: Run, users: UsersByEmail, { email, kind }: Work): Promise<void> {
  const key = { job_id: run.jobId, user_email: email, kind };
  try {
    await within(run, async (tx) => {
      await run.hold(tx);
      await tx('c2c_outcomes').where(key).update({ status: 'running' });
    });
    const user = await users.find(email);
    await readKind(run, KINDS[kind], user);
    await within(run, async (tx) => {
      await run.hold(tx);
      await endOutcome(tx, key);
      await tx('c2c_job_facts').where('id', run.jobId).increment('parts_done', 1);
    });
  } catch (error) {
    run.graph.signal.throwIfAborted();
    if (error instanceof Postponed || isOfConnection(error)) throw error;
    if (error instanceof AppError && error.code === 'storage_full') throw error;
    if (!(error instanceof GraphError)) throw error;
    await within(run, async (tx) => {
      await run.hold(tx);
      const isAbsent =
        error.status === 404 && ABSENT.has(error.code) && !(await hadItems(tx, run, { email, kind }));
      await tx('c2c_outcomes')
        .where(key)
        .update({
          status: isAbsent ? 'skipped' : 'failed',
          error_code: error.code.slice(0, 100),
          error_message: shortened(error.message, 1000),
        });
      await tx('c2c_job_facts').where('id', run.jobId).increment('parts_done', 1);
    });
  }
}

/** Whether anything was backed up before. If so, a mailbox or drive that is now missing is a failure. */
async function hadItems(tx: Tx, { configId }: Run, { email, kind }: Work): Promise<boolean> {
  const item = await tx('c2c_items')
    .where({ config_id: configId, user_email: email, kind })
    .whereNull('deleted_at')
    .first<{ id: string } | undefined>('id');
  return item !== undefined;
}

async function readKind(run: Run, kind: Kind, user: GraphUser): Promise<void> {
  const containers = await kind.containers(run.graph, user);
  await retryDue(run, kind, user);
  let failure: unknown;
  for (const container of containers) {
    failure ??= await readOne(run, { kind, user, container });
  }
  if (failure !== undefined) throw failure;
  await removeAbsentContainers(run, { kind, user, containers });
}

/** Returns the failure of a folder, so that the run continues with the others. */
async function readOne(
  run: Run,
  at: { kind: Kind; user: GraphUser; container: Container },
): Promise<GraphError | undefined> {
  try {
    await readContainer(run, at);
    return undefined;
  } catch (error) {
    if (!(error instanceof GraphError) || isOfConnection(error)) throw error;
    // It was removed after the folders were listed: the next run will not list it.
    return error.status === 404 && at.container.id !== '' ? undefined : error;
  }
}

/** The status of the run from its outcomes. A run in which no user had anything to back up has failed. */
const endOf = (run: Run): ReturnType<typeof runBackup> =>
  within(run, async (tx) => {
    const { whole, partial, failed } = await countOutcomes(tx, run.jobId);
    if (whole + partial === 0 && failed > 0) return { status: 'failed' };
    if (whole + partial === 0) return { status: 'failed', code: 'BACKUP_EMPTY', message: NOTHING_THERE };
    return { status: partial + failed > 0 ? 'partial' : 'completed' };
  });

const NOTHING_THERE = 'No user of the configuration has a mailbox or a drive that it backs up.';

const AT_ONCE = 50;

interface DueRow {
  id: string;
  container: string;
  round: number;
  metadata: Record<string, unknown>;
}

/**
 * Fetches contents that earlier runs could not fetch: lists of changes do not name them again. Complete lists do, and
 * need no retry.
 */
async function retryDue(run: Run, kind: Kind, user: GraphUser): Promise<void> {
  if (!kind.hasDelta) return;
  const writer = new ContentWriter(run.parts, run);
  for (let after = ''; ; ) {
    const rows = await within(run, (tx) =>
      tx('c2c_items')
        .where({ config_id: run.configId, user_id: user.id, kind: kind.name, is_due: true })
        .whereNull('deleted_at')
        .where('external_id', '>', after)
        .orderBy('external_id')
        .limit(AT_ONCE)
        .select<DueRow[]>({
          id: 'external_id',
          container: 'container_id',
          round: 'seen_round',
          metadata: 'metadata',
        }),
    );
    const items = rows.map(
      ({ id, metadata }): Listed => ({ ...removedItem(id), isRemoved: false, metadata }),
    );
    const contents = await fetchContents({ graph: run.graph, user, kind, writer }, items);
    const gone = contents.flatMap((one) => ('failure' in one && one.failure.status === 404 ? [one.id] : []));
    for (const { id, container, round } of rows) {
      const fetched = contents.filter((one) => one.id === id);
      const listed = items.filter((one) => one.id === id && !gone.includes(id));
      const at = { kind, user, container: { id: container }, cursor: { id: run.jobId, round } };
      await recordPage(run, at, { listed, contents: fetched, failed: 0, links: undefined });
    }
    if (gone.length > 0) {
      await within(run, async (tx) => {
        await run.hold(tx);
        await tx('c2c_items')
          .where({ config_id: run.configId, user_id: user.id, kind: kind.name })
          .whereIn('external_id', gone)
          .update({ deleted_at: tx.fn.now(), is_due: false });
      });
    }
    after = rows.at(-1)?.id ?? '';
    if (rows.length < AT_ONCE) return;
  }
}

const DirectoryUser = z.object({
  id: GraphId,
  userPrincipalName: z.string().max(320).nullish().catch(null),
  mail: z.string().max(320).nullish().catch(null),
});

class UsersByEmail {
  readonly #graph: GraphClient;
  readonly #known = new Map<string, GraphUser>();

  constructor(graph: GraphClient) {
    this.#graph = graph;
  }

  /** All users of the directory with an address. */
  async all(): Promise<string[]> {
    const users = await listAll(
      this.#graph,
      '/users?$select=id,userPrincipalName,mail&$top=999',
      DirectoryUser,
    );
    return users.flatMap((user) => {
      const email = emailOf(user);
      if (email === undefined) return [];
      this.#known.set(email, { id: user.id, email });
      return [email];
    });
  }

  async find(email: string): Promise<GraphUser> {
    const known = this.#known.get(email);
    if (known !== undefined) return known;
    const user = await findUser(this.#graph, email);
    this.#known.set(email, user);
    return user;
  }
}

const emailOf = ({ mail, userPrincipalName }: z.output<typeof DirectoryUser>) =>
  (mail ?? userPrincipalName)?.toLowerCase().replace(/[\p{Cc}\p{Surrogate}]/gu, '');

/** @throws GraphError  `USER_NOT_FOUND` */
export async function findUser(graph: GraphClient, email: string): Promise<GraphUser> {
  try {
    const { id } = await graph.json(
      `/users/${partOf(email)}?$select=id,userPrincipalName,mail`,
      DirectoryUser,
    );
    return { id, email };
  } catch (error) {
    if (!(error instanceof GraphError) || error.status !== 404) throw error;
    throw new GraphError('USER_NOT_FOUND', 'There is no such user in the directory.');
  }
}

/** After this many pages in a row without changes, the list is considered endless. */
const STALE_PAGES_MAX = 100;
/** Contents are recorded after this many items, which limits the loss if the server dies. */
const ITEMS_AT_ONCE = 50;

/** Reads the changes of a container, page by page. Each page is recorded together with the position of the next one. */
async function readContainer(
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
      // The token has expired: everything is read again, and known items are recognized.
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

/** The links are stored only with the last items of the page, so an interrupted page is read again. */
async function recordItems(
  run: Run,
  at: At,
  { listed, failed, ...links }: Page,
): Promise<{ isNews: boolean }> {
  let isNews = false;
  for (let from = 0; from === 0 || from < listed.length; from += ITEMS_AT_ONCE) {
    const some = listed.slice(from, from + ITEMS_AT_ONCE);
    const isLast = from + ITEMS_AT_ONCE >= listed.length;
    const due = await itemsToFetch(run, at, some);
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
      await run.hold(tx);
      await tx('c2c_cursors').where('id', at.cursor.id).update({ done_in: run.jobId });
    });
  }
  return { isNews };
}

/** If a page names an item twice, the last record counts. An invalid record is counted, and stops nothing. */
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

/** `undefined` if the run has already read the container. */
function openCursor(
  run: Run,
  { kind, user, container }: Pick<At, 'kind' | 'user' | 'container'>,
): Promise<Cursor | undefined> {
  const key = { config_id: run.configId, user_id: user.id, kind: kind.name, container_id: container.id };
  return within(run, async (tx) => {
    await run.hold(tx);
    const found = await tx('c2c_cursors')
      .where(key)
      .first<(Cursor & { doneIn: string | null }) | undefined>({ ...COLUMNS, doneIn: 'done_in' });
    if (found?.doneIn === run.jobId) return undefined;
    if (found === undefined) {
      const made: Cursor = { id: newId(), round: 1, isWhole: true, nextLink: null, deltaLink: null };
      await tx('c2c_cursors').insert({ ...key, id: made.id, org_id: run.orgId, round: 1, is_whole: true });
      return made;
    }
    // Continues an interrupted reading.
    if (found.nextLink !== null) return found;
    return begin(tx, found, found.deltaLink);
  });
}

const restart = (run: Run, cursor: Cursor): Promise<Cursor> =>
  within(run, async (tx) => {
    await run.hold(tx);
    return begin(tx, cursor, null);
  });

async function begin(tx: Tx, cursor: Cursor, deltaLink: string | null): Promise<Cursor> {
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
