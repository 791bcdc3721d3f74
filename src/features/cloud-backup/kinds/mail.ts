import { z } from 'zod';
import { BATCH_MAX, batchedTexts } from '../graph/batch.ts';
import type { GraphClient } from '../graph/graph-client.ts';
import {
  type Container,
  dateOf,
  GraphId,
  type GraphUser,
  type Kind,
  listAll,
  Moment,
  oneLine,
  partOf,
  Person,
  Removed,
  removedItem,
  userPath,
} from './kind.ts';

const Folder = z.object({
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
export const mail: Kind = {
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
        for (const { id, displayName, childFolderCount } of await listAll(graph, place, Folder)) {
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
