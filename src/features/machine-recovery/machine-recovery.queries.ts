import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { hypervisorCapability, type HypervisorKind } from '../../protocol/index.ts';

/** The partner of an organization, and whether both are active. */
export async function findTenant(
  tx: Tx,
  orgId: string,
): Promise<{ partnerId: string; isActive: boolean } | undefined> {
  const { rows } = await tx.raw<{ rows: { partnerId: string; isActive: boolean }[] }>(
    `select o.partner_id as "partnerId", o.deleted_at is null and o.status in ('active', 'trial')
      and p.deleted_at is null and p.status = 'active' as "isActive"
    from organizations o join partners p on p.id = o.partner_id where o.id = ?`,
    [orgId],
  );
  return rows[0];
}

const ASKED_MAX = 20;

/** Connected devices with the hypervisor, first those that have never listed their machines. */
export async function longestUnasked(
  { tx, caller }: Context,
  hypervisor: HypervisorKind,
  orgId: string | undefined,
): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select d.id from devices d
    join device_presence p on p.device_id = d.id and p.state = 'connected'
    left join lateral (
      select max(m.last_discovered_at) as at from backup_machines m
      where m.device_id = d.id and m.hypervisor = ?) m on true
    where d.capabilities @> array[?] and ${inTenant(caller, 'd.org_id')} and (?::uuid is null or d.org_id = ?::uuid)
    order by m.at nulls first, d.id limit ?`,
    [hypervisor, hypervisorCapability(hypervisor), orgId ?? null, orgId ?? null, ASKED_MAX] as never,
  );
  return rows.map(({ id }) => id);
}
