import { z } from 'zod';
import { dateOf, GraphId, type Kind, Moment, oneLine, partOf, removedItem, userPath } from './kind.ts';

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
export const onedrive: Kind = {
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
