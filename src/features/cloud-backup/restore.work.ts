import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { z } from 'zod';
import { AppError } from '../../platform/errors.ts';
import type { CloudJob } from './cloud-backup.model.ts';
import { pendingRestores, type RestoredItem, settleRestore } from './cloud-backup.queries.ts';
import { readContent } from './content-store.ts';
import { type GraphClient, GraphError, isOfConnection } from './graph-client.ts';
import { EventContent } from './graph-kinds.ts';
import { GraphId, type GraphUser, type KindName, listAll, partOf, userPath } from './item-kind.ts';
import { findUser } from './run-backup.ts';
import { type Run, within } from './run.ts';
import { shortened } from '../../protocol/index.ts';

const AT_ONCE = 100;

/**
 * Restores one item after another. Before an item is created, the target is checked for it, so that a crash or a
 * repeated restore creates no duplicates.
 */
export async function runRestore(
  run: Run,
  { target }: Pick<CloudJob, 'target'>,
): Promise<{ status: 'completed' | 'partial' | 'failed' }> {
  if (target === null) throw new Error('a restore has no target');
  const users = new Map<string, Promise<GraphUser>>();
  const userOf = (email: string) => {
    const known = users.get(email) ?? findUser(run.graph, email);
    users.set(email, known);
    return known;
  };
  for (;;) {
    const items = await pending(run);
    if (items.length === 0) return { status: await statusOf(run) };
    for (const item of items) {
      try {
        const user = await userOf(target.user ?? item.userEmail);
        const { externalId, wasThere } = await restoreItem(run, { user, folder: target.folder }, item);
        await settle(run, item.id, {
          status: wasThere ? 'present' : 'restored',
          external_id: shortened(externalId, 1000),
        });
      } catch (error) {
        run.graph.signal.throwIfAborted();
        const failure = error instanceof AppError ? new GraphError('CONTENT_DAMAGED', error.message) : error;
        if (!(failure instanceof GraphError) || isOfConnection(failure)) throw failure;
        await settle(run, item.id, {
          status: 'failed',
          error_code: failure.code.slice(0, 100),
          error_message: shortened(failure.message, 1000),
        });
      }
    }
  }
}

const pending = (run: Run): Promise<RestoredItem[]> =>
  within(run, async (tx) => {
    await run.hold(tx);
    return pendingRestores(tx, run.jobId, AT_ONCE);
  });

const settle = (run: Run, itemId: string, outcome: Record<string, string>): Promise<void> =>
  within(run, async (tx) => {
    await run.hold(tx);
    await settleRestore(tx, run.jobId, itemId, outcome);
  });

/** Contents that retention has removed since the request also count as failures. */
const statusOf = (run: Run): Promise<'completed' | 'partial' | 'failed'> =>
  within(run, async (tx) => {
    await tx('c2c_restored_items').where({ job_id: run.jobId, status: 'pending' }).update({
      status: 'failed',
      error_code: 'CONTENT_GONE',
      error_message: 'The content was removed before it could be restored.',
    });
    const rows = await tx('c2c_restored_items')
      .where('job_id', run.jobId)
      .distinct<{ status: string }[]>('status');
    const hasFailed = rows.some(({ status }) => status === 'failed');
    if (!hasFailed) return 'completed';
    return rows.length === 1 ? 'failed' : 'partial';
  });

interface Place {
  user: GraphUser;
  folder: string;
}

interface Restored {
  externalId: string;
  wasThere: boolean;
}

const Made = z.object({ id: GraphId });
const Found = z.object({ value: z.array(Made) });
/** Graph takes requests up to 4 MB, and MIME text in base64. */
const MIME_MAX = 2_900_000;
const EVENT_MAX = 3_500_000;
/** The property by which Graph finds restored items. */
const MARK = 'String {6f8c2d2a-7d0b-4a53-9a8e-3f4b8c1d9e55} Name MusterVersion';

export function restoreItem(run: Run, place: Place, item: RestoredItem): Promise<Restored> {
  return BY_KIND[item.kind](run, place, item);
}

type RestoreItem = (run: Run, place: Place, item: RestoredItem) => Promise<Restored>;

const BY_KIND: Readonly<Record<KindName, RestoreItem>> = { mail, contacts, calendar, onedrive: file };

const whole = (run: Run, item: RestoredItem): Promise<Buffer> =>
  buffer(Readable.from(readContent(run.parts, item)));

/** Graph imports MIME texts as drafts. All other properties of the message are restored. */
async function mail({ graph, ...run }: Run, { user, folder }: Place, item: RestoredItem): Promise<Restored> {
  const folders = `${userPath(user)}/mailFolders`;
  const folderId = await folderNamed(graph, folders, 'displayName', folder);
  const messageId = item.metadata['internetMessageId'];
  if (typeof messageId === 'string' && messageId !== '') {
    const filter = `internetMessageId eq '${messageId.replaceAll("'", "''")}'`;
    const present = await firstOf(graph, `${folders}/${partOf(folderId)}/messages`, filter);
    if (present !== undefined) return { externalId: present, wasThere: true };
  }
  if (item.bytes > MIME_MAX) {
    throw tooLarge('This message is larger than Microsoft Graph takes. Export it instead.');
  }
  const mime = await whole({ graph, ...run }, item);
  const { id } = await graph.json(`${folders}/${partOf(folderId)}/messages`, Made, {
    method: 'POST',
    body: mime.toString('base64'),
    headers: { 'content-type': 'text/plain' },
  });
  return { externalId: id, wasThere: false };
}

async function contacts(run: Run, { user, folder }: Place, item: RestoredItem): Promise<Restored> {
  const folders = `${userPath(user)}/contactFolders`;
  const folderId = await folderNamed(run.graph, folders, 'displayName', folder);
  const record = z.looseObject({}).parse(JSON.parse((await whole(run, item)).toString()));
  return makeMarked(run.graph, `${folders}/${partOf(folderId)}/contacts`, item, only(record, CONTACT_FIELDS));
}

/** Without attendees, because Microsoft would send them invitations. */
async function calendar(run: Run, { user, folder }: Place, item: RestoredItem): Promise<Restored> {
  if (item.bytes > EVENT_MAX) {
    throw tooLarge('This event is larger than Microsoft Graph takes. Export it instead.');
  }
  const calendars = `${userPath(user)}/calendars`;
  const calendarId = await folderNamed(run.graph, calendars, 'name', folder);
  const { event } = EventContent.parse(JSON.parse((await whole(run, item)).toString()));
  return makeMarked(run.graph, `${calendars}/${partOf(calendarId)}/events`, item, {
    ...only(event, EVENT_FIELDS),
    // Graph itself creates only one event per transaction id.
    transactionId: item.versionId,
  });
}

const Session = z.object({ uploadUrl: z.url().max(16_000) });
const Present = z.object({ id: GraphId, size: z.number().nullish() });
/** A multiple of 320 KiB. */
const UPLOAD_BYTES = 12 * 320 * 1024;

/**
 * Restores to the original path below the folder. An identical file counts as restored; a different one is kept beside
 * the new one.
 */
async function file({ graph, ...run }: Run, { user, folder }: Place, item: RestoredItem): Promise<Restored> {
  const path = [folder, ...item.parentPath.split('/').filter(Boolean), item.name].map(partOf).join('/');
  const place = `${userPath(user)}/drive/root:/${path}:`;
  const present = await graph.json(place.slice(0, -1), Present).catch(unlessMissing);
  if (present?.size === item.bytes && (await holds(graph, `${place}/content`, item.sha256))) {
    return { externalId: present.id, wasThere: true };
  }
  const content = readContent(run.parts, item);
  if (item.bytes === 0) {
    const { id } = await graph.json(`${place}/content`, Made, {
      method: 'PUT',
      body: '',
      headers: { 'content-type': 'application/octet-stream' },
    });
    return { externalId: id, wasThere: false };
  }
  const { uploadUrl } = await graph.json(`${place}/createUploadSession`, Session, {
    method: 'POST',
    body: { item: { '@microsoft.graph.conflictBehavior': 'rename' } },
  });
  let first = 0;
  let last: unknown;
  for await (const part of inParts(content)) {
    last = await graph.upload(uploadUrl, part, { first, total: item.bytes });
    first += part.length;
  }
  const made = Made.safeParse(last).data;
  if (made === undefined) throw new GraphError('UPLOAD_FAILED', 'Microsoft Graph did not finish the upload.');
  return { externalId: made.id, wasThere: false };
}

/** Another version can have the same size, so the contents are compared. */
async function holds(graph: GraphClient, place: string, sha256: Buffer): Promise<boolean> {
  const answer = await graph.open(place).catch(unlessMissing);
  if (answer === undefined) return false;
  const hash = createHash('sha256');
  for await (const piece of answer.body) hash.update(piece);
  return hash.digest().equals(sha256);
}

async function* inParts(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let waiting = Buffer.alloc(0);
  for await (const piece of pieces) {
    waiting = Buffer.concat([waiting, piece]);
    while (waiting.length > UPLOAD_BYTES) {
      yield waiting.subarray(0, UPLOAD_BYTES);
      waiting = waiting.subarray(UPLOAD_BYTES);
    }
  }
  if (waiting.length > 0) yield waiting;
}

async function makeMarked(
  graph: GraphClient,
  place: string,
  { versionId }: RestoredItem,
  fields: Record<string, unknown>,
): Promise<Restored> {
  const filter = `singleValueExtendedProperties/any(p: p/id eq '${MARK}' and p/value eq '${versionId}')`;
  const present = await firstOf(graph, place, filter);
  if (present !== undefined) return { externalId: present, wasThere: true };
  const body = { ...fields, singleValueExtendedProperties: [{ id: MARK, value: versionId }] };
  const { id } = await graph.json(place, Made, { method: 'POST', body });
  return { externalId: id, wasThere: false };
}

async function firstOf(graph: GraphClient, place: string, filter: string): Promise<string | undefined> {
  const { value } = await graph.json(`${place}?$select=id&$top=1&$filter=${partOf(filter)}`, Found);
  return value[0]?.id;
}

const Folder = Made.extend({ name: z.string().nullish(), displayName: z.string().nullish() });

/** The folder with this name, which is created if it is missing. */
async function folderNamed(
  graph: GraphClient,
  place: string,
  field: 'name' | 'displayName',
  name: string,
): Promise<string> {
  const folders = await listAll(graph, `${place}?$top=100`, Folder);
  const present = folders.find((folder) => folder[field] === name);
  if (present !== undefined) return present.id;
  return (await graph.json(place, Made, { method: 'POST', body: { [field]: name } })).id;
}

const CONTACT_FIELDS = [
  'assistantName',
  'birthday',
  'businessAddress',
  'businessHomePage',
  'businessPhones',
  'categories',
  'children',
  'companyName',
  'department',
  'displayName',
  'emailAddresses',
  'fileAs',
  'generation',
  'givenName',
  'homeAddress',
  'homePhones',
  'imAddresses',
  'initials',
  'jobTitle',
  'manager',
  'middleName',
  'mobilePhone',
  'nickName',
  'officeLocation',
  'otherAddress',
  'personalNotes',
  'profession',
  'spouseName',
  'surname',
  'title',
] as const;
const EVENT_FIELDS = [
  'body',
  'categories',
  'end',
  'importance',
  'isAllDay',
  'isReminderOn',
  'location',
  'locations',
  'recurrence',
  'reminderMinutesBeforeStart',
  'sensitivity',
  'showAs',
  'start',
  'subject',
] as const;

const only = (record: Record<string, unknown>, fields: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(
    fields.flatMap((name) =>
      record[name] === undefined || record[name] === null ? [] : [[name, record[name]]],
    ),
  );

const tooLarge = (message: string) => new GraphError('TOO_LARGE', message);

function unlessMissing(error: unknown): undefined {
  if (error instanceof GraphError && error.status === 404) return undefined;
  throw error;
}
