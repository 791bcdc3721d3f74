import { z } from 'zod';
import type { GraphClient } from '../graph/graph-client.ts';

/** What of a user can be backed up. */
export const KindName = z.enum(['mail', 'calendar', 'contacts', 'onedrive']);
export type KindName = z.infer<typeof KindName>;

export interface GraphUser {
  id: string;
  email: string;
}

/** What is listed by itself: a folder of mail or contacts, a calendar, a drive. */
export interface Container {
  id: string;
  path: string;
}

/** What a list says of an item. A field that it does not say is undefined, and stays as it was. */
export interface Listed {
  id: string;
  isRemoved: boolean;
  /** Differs when the content does. */
  etag: string | undefined;
  name: string | undefined;
  parentPath: string | undefined;
  sizeBytes: number | undefined;
  itemDate: Date | undefined;
  metadata: Record<string, unknown> | undefined;
  /** The item as the list has it, where that is its content. */
  record: unknown;
  /** It is a folder, which is remembered for the paths of others. */
  isFolder: boolean;
  parentId: string | undefined;
}

export interface Kind {
  name: KindName;
  /** Lists say what has changed since the last reading. Otherwise each reading is a whole one. */
  hasDelta: boolean;
  containers(graph: GraphClient, user: GraphUser): Promise<Container[]>;
  firstPage(user: GraphUser, container: Container): string;
  /** Throws a `ZodError` for a record that is none. `undefined` for one that is not backed up. */
  read(record: unknown, container: Container): Listed | undefined;
  /** Contents that one request brings. The others are asked for by `content`. */
  many?(graph: GraphClient, user: GraphUser, items: readonly Listed[]): Promise<Map<string, Buffer>>;
  content(graph: GraphClient, user: GraphUser, item: Listed): AsyncIterable<Buffer>;
}

export const userPath = ({ id }: Pick<GraphUser, 'id'>) => `/users/${encodeURIComponent(id)}`;
export const partOf = (id: string) => encodeURIComponent(id);

/** An id of Graph: visible ASCII, and short enough for an index. */
export const GraphId = z.string().regex(/^[\x21-\x7e]{1,1000}$/);
export const Removed = z.object({ id: GraphId, '@removed': z.object({}) });
/** Who has sent a message, or organizes an event. */
export const Person = z.object({
  emailAddress: z.object({ name: z.string().nullish(), address: z.string().nullish() }).nullish(),
});
export const Moment = z.iso.datetime({ offset: true, local: true }).nullish().catch(null);

export const GraphPage = z.object({
  value: z.array(z.unknown()).max(10_000),
  '@odata.nextLink': z.string().max(16_000).optional(),
  '@odata.deltaLink': z.string().max(16_000).optional(),
});

/** Text that can be stored, in one line. */
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

const CONTAINERS_MAX = 10_000;
const PAGES_MAX = 500;

/** All records of a list that is not long. */
export async function listAll<S extends z.ZodType>(
  graph: GraphClient,
  first: string,
  schema: S,
): Promise<z.output<S>[]> {
  const all: z.output<S>[] = [];
  let next: string | undefined = first;
  for (let pages = 0; next !== undefined && pages < PAGES_MAX && all.length < CONTAINERS_MAX; pages++) {
    const page: z.output<typeof GraphPage> = await graph.json(next, GraphPage);
    for (const record of page.value) {
      const { data } = schema.safeParse(record);
      if (data !== undefined) all.push(data);
    }
    next = page['@odata.nextLink'];
  }
  return all;
}
