import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { Download, type Within } from '../../../platform/http/download.ts';
import type { EntryFilter, FullEntry } from '../reading/audit.schema.ts';
import { entriesById, newestIds, peopleOf, selectEntries } from '../reading/audit-query.ts';
import { newestFirst } from '../reading/scan-plan.ts';
import { CSV_HEAD, csvEntry } from './csv.ts';
import { fullEntry } from '../reading/entry-row.ts';

const MAX_ROWS = 10_000;
const BATCH_SIZE = 500;

/**
 * Selects the ids of the entries in the transaction that also records the export. The entries themselves are read in
 * batches while the client downloads them, so the export is never held in memory.
 */
export async function exportEntries(
  ctx: Context,
  { format, bom }: { format: 'csv' | 'json'; bom: boolean },
  filter: EntryFilter,
): Promise<Download> {
  const ids = await newestIds(ctx, filter, { limit: MAX_ROWS });
  const noted = { format, rows: ids.length, ...filter };
  const pieces = (within: Within) =>
    format === 'csv' ? csvPieces(portions(within, ids), { bom }) : jsonPieces(portions(within, ids));
  return format === 'csv'
    ? new Download({ type: 'text/csv', fileName: `audit-logs-${today()}.csv`, pieces, noted })
    : new Download({ type: 'application/json', fileName: undefined, pieces, noted });
}

const today = () => clock.date().toISOString().slice(0, 10);

async function* portions(within: Within, ids: readonly string[]): AsyncGenerator<FullEntry[]> {
  for (let start = 0; start < ids.length; start += BATCH_SIZE) {
    const some = ids.slice(start, start + BATCH_SIZE);
    yield await within(async (ctx) => {
      const rows = await selectEntries(newestFirst(entriesById(ctx, some)));
      const people = await peopleOf(ctx, rows);
      return rows.map((row) => fullEntry(row, people));
    });
  }
}

async function* csvPieces(
  entries: AsyncIterable<FullEntry[]>,
  { bom }: { bom: boolean },
): AsyncGenerator<string> {
  yield bom ? `\uFEFF${CSV_HEAD}` : CSV_HEAD;
  for await (const some of entries) yield some.map(csvEntry).join('');
}

async function* jsonPieces(entries: AsyncIterable<FullEntry[]>): AsyncGenerator<string> {
  yield '{"data":[';
  let isFirst = true;
  for await (const some of entries) {
    yield (isFirst ? '' : ',') + some.map((entry) => JSON.stringify(entry)).join(',');
    isFirst = false;
  }
  yield ']}';
}
