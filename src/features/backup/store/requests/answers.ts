import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { clock } from '../../../../clock.ts';
import type { Slot } from '../../../../platform/fair-slots.ts';
import { Pace, watchPace } from '../../../../platform/pace.ts';
import { releaseMemory } from '../../../../platform/release-memory.ts';
import type { ListedObject } from '../records/objects.ts';

const VERSION_1 = 'application/vnd.x.restic.rest.v1';
const VERSION_2 = 'application/vnd.x.restic.rest.v2';

/** A client that takes nothing for so long is gone. */
const PATIENCE_MS = 60_000;
const LOOK_MS = 1000;

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

/**
 * Sends a body and ends the answer. The memory of each piece is freed once it is sent: nobody else may use the pieces.
 * Should reading fail half-way, the connection is cut, so that nobody takes a part for the whole; where the client
 * leaves, this just ends.
 */
export async function sendAll(response: ServerResponse, body: Readable, slot?: Slot): Promise<void> {
  if (response.closed) {
    body.destroy();
    return;
  }
  response.setTimeout(PATIENCE_MS, () => response.destroy());
  const stopReading = () => body.destroy();
  response.once('close', stopReading);
  const pace = new Pace();
  slot?.mayBeTaken(pace, () => response.destroy());
  const isStillGoing = watchPace(pace);
  const watch = clock.setInterval(() => {
    if (!isStillGoing(clock.monotonic())) response.destroy();
  }, LOOK_MS);
  try {
    for await (const piece of body as AsyncIterable<Buffer | string>) {
      pace.waits(clock.monotonic());
      if (!(await isSent(response, piece))) return;
      pace.moved(clock.monotonic(), piece.length);
      if (typeof piece !== 'string') releaseMemory(piece);
    }
    response.end();
  } catch (error) {
    if (response.closed) return;
    response.destroy();
    throw error;
  } finally {
    clock.clear(watch);
    response.off('close', stopReading);
    body.destroy();
  }
}

/** When the system has taken the piece, and its memory is free. `false` where the client has left. */
function isSent(response: ServerResponse, piece: Buffer | string): Promise<boolean> {
  return new Promise((resolve) => {
    const onClose = () => resolve(false);
    response.once('close', onClose);
    response.write(piece, (error) => {
      response.off('close', onClose);
      resolve(!error);
    });
  });
}
