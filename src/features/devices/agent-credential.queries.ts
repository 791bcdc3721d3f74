import type { UpgradableMachine } from '../../hub/ports.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { UPGRADE_CAPABILITY } from '../../protocol/index.ts';

/** Deleted and churned tenants are gone for their agents; those of pending and suspended ones may report. */
const TENANT_GONE = `(o.deleted_at is not null or p.deleted_at is not null or o.status = 'churned' or p.status = 'churned')`;

/** The facts that decide whether a device may connect. */
export interface Standing {
  revoked: boolean;
  condition: string;
  tenant_gone: boolean;
}

export interface CredentialRow extends Standing {
  token_hash: string;
  device_id: string;
  org_id: string;
  site_id: string;
  partner_id: string;
  staged: boolean;
  enrolled_as: string | null;
  os_type: UpgradableMachine['osType'];
  architecture: UpgradableMachine['architecture'];
  auto_update: boolean;
  can_upgrade: boolean;
}

/** Credentials by the hash of their token. The handshake's hot path, so it is one statement. */
export async function findCredentials(
  tx: Tx,
  hashes: readonly string[],
): Promise<Map<string, CredentialRow>> {
  const { rows } = await tx.raw(
    `select c.token_hash, c.device_id, c.org_id, d.site_id, o.partner_id, c.revoked_at is not null as revoked, c.staged,
      c.enrolled_as, d.condition,
      ${TENANT_GONE} as tenant_gone, d.os_type, d.architecture, d.auto_update,
      d.condition <> 'pending' and '${UPGRADE_CAPABILITY}' = any(d.capabilities) as can_upgrade
    from agent_credentials c
    join devices d on d.id = c.device_id and d.org_id = c.org_id
    join organizations o on o.id = c.org_id
    join partners p on p.id = o.partner_id
    where c.token_hash = any(?::bpchar[])`,
    [[...hashes]],
  );
  return new Map((rows as CredentialRow[]).map((row) => [row.token_hash, row]));
}

/** Returns the devices that have no valid token, by the rules of `findCredentials`. */
export async function findLapsed(
  tx: Tx,
  deviceIds: readonly string[],
): Promise<(Standing & { device_id: string })[]> {
  const { rows } = await tx.raw(
    `select * from (
      select asked.id as device_id, case
        -- Its agent goes on as another device, and is not told that it was decommissioned.
        when d.condition = 'decommissioned' and exists (
          select from agent_credentials c where c.enrolled_as = d.id and c.org_id = d.org_id and c.revoked_at is null
        ) then 'replaced' else coalesce(d.condition, 'unknown') end as condition,
        coalesce(${TENANT_GONE}, false) as tenant_gone,
        not exists (
          select from agent_credentials c where c.device_id = d.id and c.org_id = d.org_id and c.revoked_at is null
        ) as revoked
      from unnest(?::uuid[]) as asked (id)
      left join devices d on d.id = asked.id
      left join organizations o on o.id = d.org_id
      left join partners p on p.id = o.partner_id
    ) as standing where condition = 'decommissioned' or tenant_gone or revoked`,
    [[...deviceIds]],
  );
  return rows as (Standing & { device_id: string })[];
}

/**
 * Confirms a staged token by its first use, which revokes the token before it. Every change of a device's tokens locks the
 * device first, so that two changes never deadlock and the second one sees what the first has done.
 * @returns whether this was the first use
 */
export async function confirmToken(
  tx: Tx,
  { hash, deviceId }: { hash: string; deviceId: string },
): Promise<boolean> {
  const { rowCount } = await tx.raw(
    `with device as (select id from devices where id = ? for no key update),
      used as (
        select c.device_id from agent_credentials c join device on device.id = c.device_id
        where c.token_hash = ? and c.staged and c.revoked_at is null for update of c
      )
    update agent_credentials c set staged = false, revoked_at = case when c.token_hash <> ? then now() end
    from used where c.device_id = used.device_id and c.revoked_at is null`,
    [deviceId, hash, hash],
  );
  return rowCount > 0;
}

/** Stores a token beside the current one of a device, in place of one that was staged before. Returns whether it did. */
export async function stageToken(
  tx: Tx,
  { deviceId, hash, currentHash }: { deviceId: string; hash: string; currentHash: string },
): Promise<boolean> {
  const { rowCount } = await tx.raw(
    `insert into agent_credentials (token_hash, device_id, org_id, staged, enrolled_as)
    select ?, c.device_id, c.org_id, true, c.enrolled_as from agent_credentials c
    where c.token_hash = ? and c.device_id = ? and c.revoked_at is null and not c.staged
    on conflict (device_id) where staged and revoked_at is null
    do update set token_hash = excluded.token_hash, created_at = excluded.created_at`,
    [hash, currentHash, deviceId],
  );
  return rowCount !== 0;
}
