import { z } from 'zod';
import { type GraphClient, GraphError, invalidAnswer, issueOf } from './graph-client.ts';

/** The kinds of data of a user that can be backed up. */
export const KindName = z.enum(['mail', 'calendar', 'contacts', 'onedrive']);
export type KindName = z.infer<typeof KindName>;

export interface GraphUser {
  id: string;
  email: string;
}

/** A separately listed unit: a folder of mail or contacts, a calendar, a drive. */
export interface Container {
  id: string;
  path: string;
}

/** The fields of an item in a list. A field that the list lacks is undefined, and keeps its value. */
export interface Listed {
  id: string;
  isRemoved: boolean;
  /** Changes with the content. */
  etag: string | undefined;
  name: string | undefined;
  parentPath: string | undefined;
  sizeBytes: number | undefined;
  itemDate: Date | undefined;
  metadata: Record<string, unknown> | undefined;
  /** The item as listed, if that is its content. */
  record: unknown;
  /** A folder, cached to build the paths of items. */
  isFolder: boolean;
  parentId: string | undefined;
}

export interface Kind {
  name: KindName;
  /** Whether lists return only changes since the last reading. Otherwise each reading is complete. */
  hasDelta: boolean;
  containers(graph: GraphClient, user: GraphUser): Promise<Container[]>;
  firstPage(user: GraphUser, container: Container): string;
  /** Throws a `ZodError` for an invalid record. Returns `undefined` for one that is not backed up. */
  read(record: unknown, container: Container): Listed | undefined;
  /** Contents that one request can fetch. The others are fetched by `content`. */
  many?(graph: GraphClient, user: GraphUser, items: readonly Listed[]): Promise<Map<string, Buffer>>;
  content(graph: GraphClient, user: GraphUser, item: Listed): AsyncIterable<Buffer>;
}

export const userPath = ({ id }: Pick<GraphUser, 'id'>) => `/users/${encodeURIComponent(id)}`;
export const partOf = (id: string) => encodeURIComponent(id);

/** An id in Graph: visible ASCII, and short enough for an index. */
export const GraphId = z.string().regex(/^[\x21-\x7e]{1,1000}$/);
export const Removed = z.object({ id: GraphId, '@removed': z.object({}) });
/** The sender of a message, or the organizer of an event. */
export const Person = z.object({
  emailAddress: z.object({ name: z.string().nullish(), address: z.string().nullish() }).nullish(),
});
export const Moment = z.iso.datetime({ offset: true, local: true }).nullish().catch(null);

export const GraphPage = z.object({
  value: z.array(z.unknown()).max(10_000),
  '@odata.nextLink': z.string().max(16_000).optional(),
  '@odata.deltaLink': z.string().max(16_000).optional(),
});

/** Storable text, in one line. */
export const oneLine = (text: string | null | undefined, max = 500): string =>
  Array.from((text ?? '').slice(0, 4 * max).replace(/[\p{Cc}\p{Surrogate}]/gu, ' '))
    .slice(0, max)
    .join('')
    .trim();

export const dateOf = (text: string | null | undefined): Date | undefined => {
  const at =
    text === null || text === undefined
      ? Number.NaN
      : Date.parse(/[zZ]|[+-]\d\d:\d\d$/.test(text) ? text : `${text}Z`);
  return Number.isNaN(at) || at < 0 || at > Date.parse('9999-01-01') ? undefined : new Date(at);
};

export const removedItem = (id: string): Listed => ({
  id,
  isRemoved: true,
  etag: undefined,
  name: undefined,
  parentPath: undefined,
  sizeBytes: undefined,
  itemDate: undefined,
  metadata: undefined,
  record: undefined,
  isFolder: false,
  parentId: undefined,
});

const PAGES_MAX = 500;

/**
 * All records of a list.
 * @throws GraphError  also if a record cannot be read, or if the list does not end: what it lacks counts as removed
 */
export async function listAll<S extends z.ZodType>(
  graph: GraphClient,
  first: string,
  schema: S,
): Promise<z.output<S>[]> {
  const all: z.output<S>[] = [];
  let next: string | undefined = first;
  for (let pages = 0; next !== undefined; pages++) {
    if (pages === PAGES_MAX) throw new GraphError('ENDLESS_LIST', 'A list of Microsoft Graph does not end.');
    const page: z.output<typeof GraphPage> = await graph.json(next, GraphPage);
    for (const record of page.value) {
      const { data, error } = schema.safeParse(record);
      if (error !== undefined) throw invalidAnswer(issueOf(error));
      all.push(data);
    }
    next = page['@odata.nextLink'];
  }
  return all;
}
