import {
  type Kind,
  type KindName,
  dateOf,
  GraphId,
  listAll,
  Moment,
  oneLine,
  partOf,
  Removed,
  removedItem,
  userPath,
  type GraphUser,
  Person,
  type Container,
} from './item-kind.ts';
import { z } from 'zod';
import { type GraphClient, GraphError, BATCH_MAX, batchedTexts } from './graph-client.ts';

const MailFolder = z.object({
  id: GraphId,
  displayName: z.string().nullish(),
  childFolderCount: z.number().nullish(),
});

const Message = z.object({
  id: GraphId,
  '@odata.etag': z.string().max(500).optional(),
  changeKey: z.string().max(500).nullish(),
  subject: z.string().nullish(),
  receivedDateTime: Moment,
  hasAttachments: z.boolean().nullish(),
  internetMessageId: z.string().nullish(),
  from: Person.nullish(),
});

const FIELDS = 'subject,receivedDateTime,hasAttachments,internetMessageId,from,changeKey';
const DEPTH_MAX = 50;

/** Mail, folder by folder: Graph knows the changes of a folder, and of no whole mailbox. The content is the MIME text. */
const mail: Kind = {
  name: 'mail',
  hasDelta: true,

  async containers(graph, user) {
    const found = new Map<string, Container>();
    let level: { place: string; path: string }[] = [
      { place: `${userPath(user)}/mailFolders?includeHiddenFolders=true&$top=100`, path: '' },
    ];
    for (let depth = 0; level.length > 0 && depth < DEPTH_MAX; depth++) {
      const below: typeof level = [];
      for (const { place, path } of level) {
        for (const { id, displayName, childFolderCount } of await listAll(graph, place, MailFolder)) {
          if (found.has(id)) continue;
          const own = `${path}/${oneLine(displayName, 200)}`;
          found.set(id, { id, path: own });
          if ((childFolderCount ?? 0) === 0) continue;
          const children = `${userPath(user)}/mailFolders/${partOf(id)}/childFolders?includeHiddenFolders=true&$top=100`;
          below.push({ place: children, path: own });
        }
      }
      level = below;
    }
    return [...found.values()];
  },

  firstPage: (user, { id }) =>
    `${userPath(user)}/mailFolders/${partOf(id)}/messages/delta?$select=${FIELDS}&$top=100`,

  read(record, { path }) {
    const removed = Removed.safeParse(record);
    if (removed.success) return removedItem(removed.data.id);
    const message = Message.parse(record);
    const isWhole = message.subject !== undefined;
    const from = oneLine(message.from?.emailAddress?.address, 320);
    return {
      ...removedItem(message.id),
      isRemoved: false,
      etag: message.changeKey ?? message['@odata.etag'],
      name: isWhole ? oneLine(message.subject) : undefined,
      parentPath: path,
      itemDate: dateOf(message.receivedDateTime),
      metadata: isWhole
        ? {
            from,
            fromName: oneLine(message.from?.emailAddress?.name, 200),
            internetMessageId: oneLine(message.internetMessageId, 1000),
            hasAttachments: message.hasAttachments ?? false,
          }
        : undefined,
      record,
    };
  },

  /** Messages without attachments are small. */
  async many(graph, user, items) {
    const small = items.filter(({ metadata }) => metadata?.['hasAttachments'] === false);
    const contents = new Map<string, Buffer>();
    for (let at = 0; at < small.length; at += BATCH_MAX) {
      const some = small.slice(at, at + BATCH_MAX);
      if (some.length < 2) break;
      const texts = await batchedTexts(graph, new Map(some.map(({ id }) => [id, mimePlace(user, id)])));
      for (const [id, content] of texts) contents.set(id, content);
    }
    return contents;
  },

  async *content(graph: GraphClient, user: GraphUser, { id }) {
    yield* (await graph.open(mimePlace(user, id))).body;
  },
};

const mimePlace = (user: GraphUser, id: string) => `${userPath(user)}/messages/${partOf(id)}/$value`;

const Calendar = z.object({ id: GraphId, name: z.string().nullish() });
const ListedEvent = z.looseObject({
  id: GraphId,
  changeKey: z.string().max(500).nullish(),
  subject: z.string().nullish(),
  type: z.string().max(50).nullish(),
  hasAttachments: z.boolean().nullish(),
  start: z.object({ dateTime: z.string().nullish() }).nullish(),
  organizer: Person.nullish().catch(null),
});
const Exceptions = z.looseObject({
  exceptionOccurrences: z.array(z.unknown()).optional(),
  cancelledOccurrences: z.array(z.unknown()).optional(),
});
const Attachments = z.object({ value: z.array(z.unknown()) });
/** Attachments come within JSON, and are in memory once. */
const ATTACHMENTS_MAX = 32 << 20;

/** The content of an event. */
export const EventContent = z.object({
  event: z.looseObject({}),
  exceptions: z.array(z.unknown()),
  cancelled: z.array(z.unknown()),
  attachments: z.array(z.unknown()),
});

/**
 * Events by their list. Graph lists the changes of a window of time only, and of whole calendars in its beta version;
 * single events and masters of series of all times are in the list, which also says what has changed since (`changeKey`).
 */
const calendar: Kind = {
  name: 'calendar',
  hasDelta: false,

  async containers(graph, user) {
    const calendars = await listAll(graph, `${userPath(user)}/calendars?$select=id,name&$top=100`, Calendar);
    return calendars.map(({ id, name }) => ({ id, path: `/${oneLine(name, 200)}` }));
  },

  // In the order in which they were made: what is added or changed meanwhile moves nothing to a page that was read.
  firstPage: (user, { id }) =>
    `${userPath(user)}/calendars/${partOf(id)}/events?$top=100&$orderby=createdDateTime`,

  read(record, { path }) {
    const event = ListedEvent.parse(record);
    return {
      ...removedItem(event.id),
      isRemoved: false,
      etag: event.changeKey ?? undefined,
      name: oneLine(event.subject),
      parentPath: path,
      itemDate: dateOf(event.start?.dateTime),
      metadata: {
        type: event.type ?? 'singleInstance',
        organizer: oneLine(event.organizer?.emailAddress?.address, 320),
        organizerName: oneLine(event.organizer?.emailAddress?.name, 200),
      },
      record,
    };
  },

  async *content(graph, user, { id, record }) {
    const event = ListedEvent.parse(record);
    const place = `${userPath(user)}/events/${partOf(id)}`;
    const series = event.type === 'seriesMaster' ? await exceptionsOf(graph, place) : {};
    const content: z.input<typeof EventContent> = {
      event,
      exceptions: series.exceptionOccurrences ?? [],
      cancelled: series.cancelledOccurrences ?? [],
      attachments: event.hasAttachments === true ? await attachmentsOf(graph, user, id) : [],
    };
    yield Buffer.from(JSON.stringify(content));
  },
};

const exceptionsOf = (graph: GraphClient, place: string): Promise<z.output<typeof Exceptions>> =>
  graph
    .json(`${place}?$select=id,cancelledOccurrences&$expand=exceptionOccurrences`, Exceptions)
    // National clouds do not know this everywhere. The series itself is there.
    .catch((error: unknown) => {
      if (error instanceof GraphError && error.status === 400) return {};
      throw error;
    });

async function attachmentsOf(graph: GraphClient, user: GraphUser, id: string): Promise<unknown[]> {
  const place = `${userPath(user)}/events/${partOf(id)}/attachments`;
  return (await graph.json(place, Attachments, { maxBytes: ATTACHMENTS_MAX })).value;
}

const DriveItem = z.object({
  id: GraphId,
  name: z.string().nullish(),
  eTag: z.string().max(500).nullish(),
  cTag: z.string().max(500).nullish(),
  size: z.number().int().nonnegative().nullish(),
  lastModifiedDateTime: Moment,
  deleted: z.object({}).nullish(),
  root: z.object({}).nullish(),
  folder: z.object({}).nullish(),
  file: z.object({ mimeType: z.string().nullish() }).nullish(),
  parentReference: z.object({ id: z.string().max(1000).nullish() }).nullish(),
});

/** Files of a drive. Their paths follow from the folders, which are remembered. */
const onedrive: Kind = {
  name: 'onedrive',
  hasDelta: true,

  containers: () => Promise.resolve([{ id: '', path: '' }]),

  firstPage: (user) => `${userPath(user)}/drive/root/delta?$top=200`,

  read(record) {
    const item = DriveItem.parse(record);
    if (item.deleted !== null && item.deleted !== undefined) return removedItem(item.id);
    const isFolder = item.folder !== null && item.folder !== undefined;
    // A notebook is neither.
    if (!isFolder && (item.file === null || item.file === undefined)) return undefined;
    return {
      ...removedItem(item.id),
      isRemoved: false,
      etag: item.cTag ?? item.eTag ?? undefined,
      name: item.root === null || item.root === undefined ? oneLine(item.name) : '',
      sizeBytes: item.size ?? undefined,
      itemDate: dateOf(item.lastModifiedDateTime),
      metadata: { mimeType: oneLine(item.file?.mimeType, 200) },
      record,
      isFolder,
      parentId: item.parentReference?.id ?? undefined,
    };
  },

  async *content(graph, user, { id }) {
    yield* (await graph.open(`${userPath(user)}/drive/items/${partOf(id)}/content`)).body;
  },
};

const Folder = z.object({ id: GraphId, displayName: z.string().nullish() });
const ListedContact = z.looseObject({
  id: GraphId,
  changeKey: z.string().max(500).nullish(),
  displayName: z.string().nullish(),
  lastModifiedDateTime: Moment,
  emailAddresses: z
    .array(z.object({ address: z.string().nullish() }))
    .nullish()
    .catch(null),
});

/** The folder that is not listed: an empty id stands for it. */
const OWN = { id: '', path: '/Contacts' };

/** Contacts, whose content is what the list says of them. */
const contacts: Kind = {
  name: 'contacts',
  hasDelta: true,

  async containers(graph, user) {
    const folders = await listAll(graph, `${userPath(user)}/contactFolders?$top=100`, Folder);
    return [
      OWN,
      ...folders.map(({ id, displayName }) => ({ id, path: `/Contacts/${oneLine(displayName, 200)}` })),
    ];
  },

  firstPage: (user, { id }) =>
    id === ''
      ? `${userPath(user)}/contacts/delta`
      : `${userPath(user)}/contactFolders/${partOf(id)}/contacts/delta`,

  read(record, { path }) {
    const removed = Removed.safeParse(record);
    if (removed.success) return removedItem(removed.data.id);
    const contact = ListedContact.parse(record);
    const address = oneLine(contact.emailAddresses?.[0]?.address, 320);
    return {
      ...removedItem(contact.id),
      isRemoved: false,
      etag: contact.changeKey ?? undefined,
      name: oneLine(contact.displayName) || address,
      parentPath: path,
      itemDate: dateOf(contact.lastModifiedDateTime),
      metadata: { address },
      record,
    };
  },

  // oxlint-disable-next-line typescript/require-await -- the content is there already, and others arrive
  async *content(_graph, _user, { record }) {
    yield Buffer.from(JSON.stringify(record));
  },
};

export const KINDS: Readonly<Record<KindName, Kind>> = { mail, calendar, contacts, onedrive };
