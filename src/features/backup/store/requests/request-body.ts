import type { IncomingMessage } from 'node:http';
import { clock } from '../../../../clock.ts';
import { AppError } from '../../../../platform/errors.ts';
import type { Slot } from '../../../../platform/fair-slots.ts';
import { Pace, watchPace } from '../../../../platform/pace.ts';
import { releaseMemory } from '../../../../platform/release-memory.ts';
import { notAnnounced } from '../storage/storage.ts';

/** Throws unless the request says how long its body is, and that is no more than `limit`. */
export function announcedSize(request: IncomingMessage, limit: number): number {
  const announced = request.headers['content-length'];
  if (announced === undefined) {
    throw new AppError('validation_failed', 'Send the size of the object as Content-Length.');
  }
  const size = Number(announced);
  if (size > limit) {
    throw new AppError('payload_too_large', `Objects of this kind have at most ${limit} bytes.`);
  }
  return size;
}

interface Patience {
  /** How long the client may send nothing. */
  idleMs: number;
  /** When its right to write ends. */
  until: Date;
  /** Of a transfer that shares a limit with others. */
  slot?: Slot | undefined;
}

/**
 * The body as it arrives. The next piece is asked for when the last one was dealt with, so no more is in memory. Each
 * piece is valid until the next one is asked for.
 */
export async function* bodyOf(
  request: IncomingMessage,
  { idleMs, until, slot }: Patience,
): AsyncGenerator<Buffer> {
  // The time that the disk takes is not the client's.
  let waitingSince: number | undefined = clock.monotonic();
  const pace = new Pace();
  pace.waits(waitingSince);
  slot?.mayBeTaken(pace, () => request.destroy());
  const isStillGoing = watchPace(pace);
  const watch = clock.setInterval(
    () => {
      const now = clock.monotonic();
      const isIdle = waitingSince !== undefined && now - waitingSince > idleMs;
      if (isIdle || !isStillGoing(now) || clock.now() > until.getTime()) request.destroy();
    },
    Math.min(1000, idleMs / 2),
  );
  try {
    for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      waitingSince = undefined;
      pace.moved(clock.monotonic(), piece.length);
      yield piece;
      releaseMemory(piece);
      waitingSince = clock.monotonic();
      pace.waits(waitingSince);
    }
  } catch (error) {
    if (request.complete) throw error;
    throw notAnnounced('The upload broke off.');
  } finally {
    clock.clear(watch);
    request.resume();
  }
}
