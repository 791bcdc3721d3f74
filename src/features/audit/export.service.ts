import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { Download, type Within } from '../../platform/http/file-answer.ts';
import type { EntryFilter, FullEntry } from './audit.schema.ts';
import { entriesById, newestIds, peopleOf, selectEntries, fullEntry } from './audit.queries.ts';
import { newestFirst } from './audit-scan.queries.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { checkpointLine, entryLine, headerLine, keyLine } from './bundle.ts';
import { publicPart, signingKeyRows } from './signing-keys.ts';
import { readCheckpoints, readConsistently, readEntries, readHead } from './stored-chains.queries.ts';
import type { Logger } from '../../platform/logger.ts';
import { createAuditTrail } from './audit-trail.ts';

const MAX_ROWS = 10_000;

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

/** CSV (RFC 4180) that is safe to open in a spreadsheet. */

/**
 * Cells that a spreadsheet may evaluate as a formula: a leading formula sign, also in full width and after invisible
 * characters, and a leading tab or line end, after which some spreadsheets look for a formula.
 */
const FORMULA = /^(?:[\t\r\n]|[\s\p{Cc}\p{Cf}]*[=+\-@＝＋－＠])/u;

export function csvCell(value: string | null): string {
  if (value === null) return '';
  const harmless = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}

export const csvLine = (cells: readonly (string | null)[]): string => `${cells.map(csvCell).join(',')}\r\n`;

const COLUMNS: Record<string, (entry: FullEntry) => string | null> = {
  id: ({ id }) => id,
  timestamp: ({ timestamp }) => timestamp,
  actorId: ({ actorId }) => actorId,
  actorName: ({ user }) => user.name,
  actorEmail: ({ user }) => user.email,
  action: ({ action }) => action,
  resourceType: ({ resource }) => resource.type,
  resourceId: ({ resource }) => resource.id,
  resourceName: ({ resource }) => resource.name,
  category: ({ category }) => category,
  result: ({ result }) => result,
  ipAddress: ({ ipAddress }) => ipAddress,
  userAgent: ({ userAgent }) => userAgent,
  details: ({ details }) => JSON.stringify(details),
};

const CSV_HEAD = csvLine(Object.keys(COLUMNS));

const csvEntry = (entry: FullEntry): string => csvLine(Object.values(COLUMNS).map((cell) => cell(entry)));

const BATCH_SIZE = 500;

/** Writes a chain as a bundle, line by line. Waits if `write` returns a promise. */
export async function exportBundle(
  db: Db,
  chainId: string,
  write: (line: string) => void | Promise<void>,
): Promise<{ entries: number }> {
  return withSystem(db, 'export a chain of the audit trail', async (tx) => {
    await readConsistently(tx);
    const head = (await readHead(tx, chainId)) ?? null;
    await write(headerLine({ chainId, exportedAt: clock.date().toISOString(), head }));
    for (const row of await signingKeyRows(tx)) await write(keyLine(publicPart(row)));
    for (const checkpoint of await readCheckpoints(tx, chainId)) await write(checkpointLine(checkpoint));
    let entries = 0;
    await readEntries(tx, chainId, (entry) => {
      entries++;
      return write(entryLine(entry));
    });
    return { entries };
  });
}

/**
 * Records the export of a whole chain in that chain. There is no session on the command line, so the actor is the system.
 * The entry is sealed by a running server, or by the next one that starts.
 */
export async function recordBundleExport(
  { db, log }: { db: Db; log: Logger },
  chainId: string,
  { entries }: { entries: number },
): Promise<void> {
  const trail = createAuditTrail({ wake() {} });
  await withSystem(db, 'record the export of an audit chain', async (tx) => {
    const organization = await tx('organizations')
      .where({ id: chainId })
      .first<{ partner_id: string } | undefined>('partner_id');
    const partner = await tx('partners').where({ id: chainId }).first<{ id: string } | undefined>('id');
    const partnerId = organization?.partner_id ?? partner?.id;
    // The system chain belongs to no partner, and an unknown id has no chain.
    if (partnerId === undefined) return;
    await trail.record(tx, {
      action: 'data.export',
      resourceType: 'audit_logs',
      details: { format: 'bundle', rows: entries },
      actor: { kind: 'system', orgId: organization === undefined ? null : chainId, partnerId },
      state: { client: { ip: null, userAgent: null }, log },
    });
  });
}
