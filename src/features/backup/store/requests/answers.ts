import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ListedObject } from '../records/objects.ts';

const VERSION_1 = 'application/vnd.x.restic.rest.v1';
const VERSION_2 = 'application/vnd.x.restic.rest.v2';

/** A client that takes nothing for so long is gone. */
const PATIENCE_MS = 60_000;

/** As restic expects it: only 200 is success, and the body does not matter. */
export function answerDone(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Length': 0 }).end();
}

/** The names, with their sizes for clients that ask for version 2; sent page by page. */
export async function answerList(
  response: ServerResponse,
  accept: string | undefined,
  pages: AsyncIterable<ListedObject[]>,
): Promise<void> {
  const withSizes = accept === VERSION_2;
  response.writeHead(200, { 'Content-Type': withSizes ? VERSION_2 : VERSION_1 });
  await sendAll(response, Readable.from(listText(pages, withSizes)));
}

async function* listText(pages: AsyncIterable<ListedObject[]>, withSizes: boolean): AsyncGenerator<string> {
  let separator = '[';
  for await (const page of pages) {
    const items = page.map(({ name, size }) => JSON.stringify(withSizes ? { name, size } : name));
    yield separator + items.join(',');
    separator = ',';
  }
  yield separator === '[' ? '[]' : ']';
}

/** Should it fail half-way, the connection is cut: nobody takes a part for the whole. */
export async function sendAll(response: ServerResponse, body: Readable): Promise<void> {
  response.setTimeout(PATIENCE_MS, () => response.destroy());
  try {
    await pipeline(body, response);
  } catch (error) {
    const hasLeft = error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE';
    if (!hasLeft) throw error;
  }
}
