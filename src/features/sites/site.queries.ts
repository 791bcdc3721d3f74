import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { haystackOf, searchOf } from '../search/index.ts';

/** Whether any organization has the site, for telling a refusal from an absence (SPEC 5.6). */
export async function siteExists(tx: Tx, id: string): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: { present: boolean }[] }>('select site_exists(?) as present', [id]);
  return rows[0]?.present === true;
}

export const siteSearch = searchOf({ type: 'sites', permission: 'sites:read' }, (caller) => ({
  table: 'sites',
  where: inTenant(caller, 's.org_id'),
  haystack: haystackOf('s.name', 'null'),
  title: 's.name',
  description: '(select o.name from organizations o where o.id = s.org_id)',
  order: 'lower(s.name)',
}));
