import type { FullEntry } from '../reading/audit.schema.ts';

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

export const CSV_HEAD = csvLine(Object.keys(COLUMNS));
export const csvEntry = (entry: FullEntry): string =>
  csvLine(Object.values(COLUMNS).map((cell) => cell(entry)));
