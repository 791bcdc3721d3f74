import type { Tx } from '../../../platform/db/transaction.ts';

/**
 * Shows by their status whether devices are being upgraded. What a person has decided, such as maintenance, stays.
 * @returns those whose status has changed
 */
export async function setUpdating(
  tx: Tx,
  devices: readonly { id: string; isUpdating: boolean }[],
): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    // Locked in the order of their ids, as every change of many devices does.
    `with wanted as materialized (
      select d.id, case when u."isUpdating" then 'updating' else 'normal' end as condition
      from devices d join jsonb_to_recordset(?::jsonb) as u (id uuid, "isUpdating" boolean) on u.id = d.id
      where d.condition in ('normal', 'updating') order by d.id for no key update of d
    )
    update devices d set condition = w.condition, updated_at = now()
    from wanted w where d.id = w.id and d.condition <> w.condition returning d.id`,
    [JSON.stringify(devices)],
  );
  return rows.map(({ id }) => id);
}
