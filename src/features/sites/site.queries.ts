import type { Tx } from '../../platform/db/transaction.ts';

/** Whether any organization has the site, for telling a refusal from an absence (SPEC 5.6). */
export async function siteExists(tx: Tx, id: string): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: { present: boolean }[] }>('select site_exists(?) as present', [id]);
  return rows[0]?.present === true;
}
