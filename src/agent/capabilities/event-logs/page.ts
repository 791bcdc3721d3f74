import type { LogEntry, LogQuery, LogQuerySummary } from '../../../protocol/index.ts';
import { entryMatcher, instantMs } from './conditions.ts';

/** The most records that one query reads. Larger logs need a narrower time range. */
export const SCAN_MAX = 5_000_000;

/**
 * Clocks are set back and writers race, so a log is only nearly ordered. A scan therefore continues this far before
 * `startTime`.
 */
export const DISORDER_MS = 3_600_000;

/** Whether a source has read all of its records. */
export interface ScanEnd {
  incomplete: boolean;
}

/** Selects one page from batches of entries, newest first. The source is closed as soon as the page is full. */
export async function* pageOf(
  source: AsyncGenerator<readonly LogEntry[], ScanEnd | void>,
  query: LogQuery,
  signal: AbortSignal,
  scanMax = SCAN_MAX,
): AsyncGenerator<LogEntry, LogQuerySummary> {
  const matches = entryMatcher(query);
  const first = (query.page - 1) * query.limit;
  const end = first + query.limit;
  const oldest = (instantMs(query.startTime) ?? -Infinity) - DISORDER_MS;
  let scanned = 0;
  let matched = 0;
  try {
    for (;;) {
      const step = await source.next();
      if (step.done === true) {
        const incomplete = signal.aborted || (step.value?.incomplete ?? false);
        return incomplete ? { scanned, truncated: true } : { scanned, truncated: false, total: matched };
      }
      for (const entry of step.value) {
        if (signal.aborted || scanned >= scanMax) return { scanned, truncated: true };
        scanned += 1;
        if (oldest !== -Infinity && Date.parse(entry.timeCreated) < oldest) {
          return { scanned, truncated: false, total: matched };
        }
        if (!matches(entry)) continue;
        matched += 1;
        if (matched <= first) continue;
        yield entry;
        if (matched === end) return { scanned, truncated: false };
      }
    }
  } finally {
    await source.return({ incomplete: true });
  }
}

/** Groups entries into batches, which makes long scans cheaper. */
export async function* inBatches<T>(source: AsyncIterable<T>, size = 256): AsyncGenerator<T[], void> {
  let batch: T[] = [];
  for await (const item of source) {
    batch.push(item);
    if (batch.length >= size) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) yield batch;
}
