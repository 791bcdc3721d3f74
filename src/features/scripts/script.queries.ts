import { raw } from 'objection';
import type { Tx } from '../../platform/db/transaction.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { haystackOf, searchOf } from '../search/index.ts';
import { Script } from './script.model.ts';

/**
 * Those of the scripts that can run in an organization, for work that the server does by itself: `id`, `name`, what a
 * device runs, and the SHA-256 of that. A query for others to select from, so that contents need not be read.
 */
export const scriptVersions = (tx: Tx, ids: readonly string[], orgId: string) =>
  tx('scripts')
    .whereIn('id', ids)
    .where((either) => {
      void either.where('org_id', orgId);
      void either.orWhereRaw('partner_id = (select o.partner_id from organizations o where o.id = ?)', [
        orgId,
      ]);
    })
    .select('id', 'name', 'language', 'content', 'timeout_seconds', tx.raw(`${VERSION} as sha256`));

/** The SHA-256 of what a device runs of a script as it is now. */
export async function versionOfScript(tx: Tx, id: string): Promise<string> {
  const row = await tx('scripts')
    .where('id', id)
    .first<{ version: string } | undefined>(tx.raw(`${VERSION} as version`));
  if (row === undefined) throw new Error(`the script ${id} is not there`);
  return row.version;
}

/**
 * SHA-256 of everything that decides about what devices are given, on which of them and with which values: all of a script
 * but its name and its descriptions. It is compared before a script is handed secrets that were given to it earlier.
 */
export const SCRIPT_FINGERPRINT = `encode(sha256(convert_to(jsonb_build_array(scripts.language, scripts.timeout_seconds,
  scripts.content, scripts.os_types, (select coalesce(jsonb_agg(p.one - 'description' order by p.place), '[]')
    from jsonb_array_elements(scripts.parameters) with ordinality as p (one, place)))::text, 'UTF8')), 'hex')`;

/** Scripts with their fingerprints. */
export const scriptsToRead = (tx: Tx) =>
  Script.query(tx).select('scripts.*', raw(`${SCRIPT_FINGERPRINT} as fingerprint`));

/** The language has no line break, and the time is a number, so no two scripts are the same text. */
const VERSION = `encode(sha256(convert_to(
  concat(language, chr(10), timeout_seconds, chr(10), content), 'UTF8')), 'hex')`;

export const scriptSearch = searchOf({ type: 'scripts', permission: 'scripts:read' }, (caller) => ({
  table: 'scripts',
  where: `(${inTenant(caller, 's.org_id')} or s.partner_id = :partnerId)`,
  haystack: haystackOf('s.name', 's.description'),
  title: 's.name',
  description: 's.description',
  order: 'lower(s.name)',
}));
