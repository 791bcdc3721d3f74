import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { readContent } from '../content/content-reader.ts';
import type { GraphClient } from '../graph/graph-client.ts';
import { GraphError } from '../graph/graph-error.ts';
import { EventContent } from '../kinds/calendar.ts';
import { GraphId, type GraphUser, type KindName, listAll, partOf, userPath } from '../kinds/kind.ts';
import type { Run } from '../runs/run.ts';

export interface RestoredItem {
  id: string;
  orgId: string;
  kind: KindName;
  name: string;
  parentPath: string;
  userEmail: string;
  metadata: Record<string, unknown>;
  versionId: string;
  bytes: number;
  sha256: Buffer;
}

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
/** By this property Graph finds what a restore has made. */
const MARK = 'String {6f8c2d2a-7d0b-4a53-9a8e-3f4b8c1d9e55} Name MusterVersion';

export function bringBack(run: Run, place: Place, item: RestoredItem): Promise<Restored> {
  return BY_KIND[item.kind](run, place, item);
}

type BringBack = (run: Run, place: Place, item: RestoredItem) => Promise<Restored>;

const BY_KIND: Readonly<Record<KindName, BringBack>> = { mail, contacts, calendar, onedrive: file };

const whole = (run: Run, item: RestoredItem): Promise<Buffer> =>
  buffer(Readable.from(readContent(run.parts, item)));

/** Graph makes drafts of MIME texts. Everything else of the message is as it was. */
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

/** Without its attendees, to whom Microsoft would send invitations. */
async function calendar(run: Run, { user, folder }: Place, item: RestoredItem): Promise<Restored> {
  if (item.bytes > EVENT_MAX) {
    throw tooLarge('This event is larger than Microsoft Graph takes. Export it instead.');
  }
  const calendars = `${userPath(user)}/calendars`;
  const calendarId = await folderNamed(run.graph, calendars, 'name', folder);
  const { event } = EventContent.parse(JSON.parse((await whole(run, item)).toString()));
  return makeMarked(run.graph, `${calendars}/${partOf(calendarId)}/events`, item, {
    ...only(event, EVENT_FIELDS),
    // Graph itself makes nothing twice with the same one.
    transactionId: item.versionId,
  });
}

const Session = z.object({ uploadUrl: z.url().max(16_000) });
const Present = z.object({ id: GraphId, size: z.number().nullish() });
/** A multiple of 320 KiB. */
const UPLOAD_BYTES = 12 * 320 * 1024;

/** Below the folder, where it was. A file of that name and content is there already; another one is kept beside. */
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

/** Another version can be as long, so only the content says that it is this one. */
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

/** The folder of this name, which is made where it is missing. */
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
