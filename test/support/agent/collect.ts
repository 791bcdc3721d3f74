import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { EventLogReader } from '../../../src/agent/capabilities/event-logs/log-reader.ts';
import type { LogEntry, LogQuery, LogQuerySummary } from '../../../src/protocol/index.ts';

export const never = new AbortController().signal;

export async function ask(
  reader: EventLogReader,
  query: Partial<LogQuery> & { name: string },
  signal: AbortSignal = never,
): Promise<{ rows: LogEntry[]; summary: LogQuerySummary }> {
  const answer = reader.query({ page: 1, limit: 500, ...query }, signal);
  const rows: LogEntry[] = [];
  for (;;) {
    const step = await answer.next();
    if (step.done === true) return { rows, summary: step.value };
    rows.push(step.value);
  }
}

/** Follows the pages until one is not full. */
export async function askAllPages(
  reader: EventLogReader,
  query: Partial<LogQuery> & { name: string; limit: number },
) {
  const all: LogEntry[] = [];
  for (let page = 1; ; page += 1) {
    const { rows } = await ask(reader, { ...query, page });
    all.push(...rows);
    if (rows.length < query.limit) return all;
  }
}

export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return 'no error';
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : String(error);
  }
}

export async function temporaryFolder(): Promise<{ folder: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-agent-test-'));
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

export async function until(
  fits: () => boolean | Promise<boolean>,
  what: string,
  withinMs = 5_000,
): Promise<void> {
  const deadline = Date.now() + withinMs;
  while (!(await fits())) {
    if (Date.now() > deadline) throw new Error(`Did not happen within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
