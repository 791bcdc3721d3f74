import { clock } from '../../clock.ts';
import { type FailedSource, shortened } from '../../protocol/index.ts';

/** Text as the protocol accepts it: without NUL and without halves of surrogate pairs. */
export function plainText(text: string): string {
  return text.replaceAll(/\0|\p{Surrogate}/gu, '\uFFFD');
}

/** The last `max` characters. Half of a surrogate pair at the start is dropped. */
export function lastCharacters(text: string, max: number): string {
  if (text.length <= max) return text;
  const end = text.slice(text.length - max);
  return isLowSurrogate(end) ? end.slice(1) : end;
}

/** The last characters that take at most `max` bytes in a message, in which some characters take six. */
export function lastBytes(text: string, max: number): string {
  let kept = text;
  for (;;) {
    const bytes = Buffer.byteLength(JSON.stringify(kept));
    if (bytes <= max) return kept;
    // The end may need more bytes per character than the average, so one cut may not be enough.
    kept = lastCharacters(kept, Math.floor((kept.length * max) / bytes));
  }
}

/** Foreign text as one line for a terminal or a log: without control characters, cut to `max` characters. */
export function printable(text: string, max = 300): string {
  return firstCharacters(text.replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' '), max);
}

/** At most `max` characters, for messages to people. A text that is cut ends with an ellipsis. */
export function firstCharacters(text: string, max: number): string {
  return plainText(shortened(text, max));
}

const isLowSurrogate = (text: string) => /^[\uDC00-\uDFFF]/.test(text);

/** Longer than the time limit of every program, which stops earlier. */
const SOURCE_MS = 60_000;

/** Reads independent sources of one result: a source that fails or hangs costs only its own part. */
export class Reading {
  readonly failed: FailedSource[] = [];

  /** The value of a source; `undefined` if it has failed, which is noted. */
  async from<T>(source: string, read: () => T | Promise<T>, withinMs = SOURCE_MS): Promise<T | undefined> {
    const late = new AbortController();
    const timeout = clock.sleep(withinMs, { signal: late.signal, unref: true }).then(
      () => {
        throw new Error(`It did not answer within ${Math.round(withinMs / 1000)} s.`);
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
