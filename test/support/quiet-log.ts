import { Writable } from 'node:stream';
import { createLogger, type Logger } from '../../src/platform/logger.ts';

export const quietLog: Logger = createLogger('silent');

/** A log whose lines can be looked at. */
export function recordingLog(): { log: Logger; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      for (const line of chunk.toString('utf8').trim().split('\n')) {
        lines.push(JSON.parse(line) as Record<string, unknown>);
      }
      done();
    },
  });
  return { log: createLogger('debug', sink), lines };
}
