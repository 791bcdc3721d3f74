import { clock } from '../../clock.ts';
import type { FailedSource } from '../../protocol/index.ts';
import { firstCharacters } from './plain-text.ts';

/** Longer than any program is given, which ends it by itself. */
const SOURCE_MS = 60_000;

/** Reads the sources of one answer, each by itself: one that fails or hangs costs its own part only. */
export class Reading {
  readonly failed: FailedSource[] = [];

  /** What a source has; `undefined` where it has failed, which is noted. */
  async from<T>(source: string, read: () => T | Promise<T>, withinMs = SOURCE_MS): Promise<T | undefined> {
    const late = new AbortController();
    const timeout = clock.sleep(withinMs, { signal: late.signal, unref: true }).then(
      () => {
        throw new Error(`It has not answered within ${Math.round(withinMs / 1000)} s.`);
      },
      () => undefined,
    );
    try {
      return await Promise.race([(async () => read())(), timeout]);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.fails(source, message);
      return undefined;
    } finally {
      late.abort();
    }
  }

  fails(source: string, message: string): void {
    const line = firstCharacters(message.trim().split('\n')[0] ?? '', 300);
    if (!this.failed.some((known) => known.source === source)) this.failed.push({ source, message: line });
  }
}
