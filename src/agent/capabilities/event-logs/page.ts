import type { LogEntry, LogQuery, LogQuerySummary } from '../../../protocol/index.ts';
import { entryMatcher } from './conditions.ts';
import { ScanReport } from './scan-report.ts';

export interface PageOptions {
  /** What the source writes while it is read. */
  report?: ScanReport;
  matches?: (entry: LogEntry) => boolean;
}

/** Selects one page from batches of entries, newest first. The source is closed as soon as the page is full. */
export async function* pageOf(
  source: AsyncGenerator<readonly LogEntry[], void>,
  query: LogQuery,
  signal: AbortSignal,
  { report = new ScanReport(), matches = entryMatcher(query) }: PageOptions = {},
): AsyncGenerator<LogEntry, LogQuerySummary> {
  const first = (query.page - 1) * query.limit;
  const end = first + query.limit;
  let scanned = 0;
  let matched = 0;
  try {
    for (;;) {
      const step = await source.next();
      if (step.done === true) return report.summary(scanned, signal.aborted, matched);
      for (const entry of step.value) {
        if (signal.aborted) break;
        scanned += 1;
        if (!matches(entry)) continue;
        matched += 1;
        if (matched <= first) continue;
        yield entry;
        if (matched === end) return report.summary(scanned, false);
      }
    }
  } finally {
    await source.return();
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
