import type { ContentWriter, StoredContent } from './content-store.ts';
import { GraphError, type GraphClient } from './graph-client.ts';
import type { GraphUser, Kind, Listed } from './item-kind.ts';

/** The number of concurrent requests that Exchange allows an app in one mailbox. */
const AT_ONCE = 4;
/** How often a broken download is retried. Parts that were received are not stored again. */
const ATTEMPTS = 3;
const BROKE_OFF = 'GRAPH_BROKE_OFF';

export type Fetched = { id: string; content: StoredContent } | { id: string; failure: GraphError };

/**
 * Fetches and stores contents. The failure of one item is returned with the item; failures of other kinds, such as a full
 * store or a broken connection, are thrown.
 */
export async function fetchContents(
  { graph, user, kind, writer }: { graph: GraphClient; user: GraphUser; kind: Kind; writer: ContentWriter },
  items: readonly Listed[],
): Promise<Fetched[]> {
  const ready = (await kind.many?.(graph, user, items)) ?? new Map<string, Buffer>();
  const fetched: Fetched[] = [];
  const waiting = [...items];
  const work = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) {
      fetched.push(await fetchOne(item, ready.get(item.id)));
      ready.delete(item.id);
    }
  };
  const fetchOne = async (item: Listed, content: Buffer | undefined): Promise<Fetched> => {
    for (let attempt = 1; ; attempt++) {
      try {
        const pieces = content === undefined ? kind.content(graph, user, item) : [content];
        return { id: item.id, content: await writer.store(guarded(pieces)) };
      } catch (error) {
        const failure = error instanceof BrokenSource ? error.cause : error;
        if (!(failure instanceof GraphError) || failure.code === 'AUTHENTICATION_FAILED') throw failure;
        if (failure.code !== BROKE_OFF || attempt >= ATTEMPTS) return { id: item.id, failure };
      }
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: AT_ONCE }, work));
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  await writer.flush();
  return fetched;
}

/** The source of a content failed, and not the store. */
class BrokenSource extends Error {}

async function* guarded(pieces: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* pieces;
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    if (name !== 'OutboundError') throw new BrokenSource(message, { cause: error });
    throw new BrokenSource(message, {
      cause: new GraphError(BROKE_OFF, `Microsoft Graph: ${message}`),
    });
  }
}
