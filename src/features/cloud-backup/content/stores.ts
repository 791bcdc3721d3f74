import type { Tx } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';

/** The name under which the contents of an organization are in the backup store. */
export async function repositoryOf(tx: Tx, orgId: string): Promise<string> {
  const find = () =>
    tx('c2c_stores').where('org_id', orgId).first<{ id: string } | undefined>({ id: 'repository_id' });
  const found = await find();
  if (found !== undefined) return found.id;
  await tx('c2c_stores').insert({ org_id: orgId, repository_id: newId() }).onConflict('org_id').ignore();
  const made = await find();
  if (made === undefined) throw new Error('an organization has no store');
  return made.id;
}
