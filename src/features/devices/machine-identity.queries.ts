import type { Tx } from '../../platform/db/transaction.ts';

/** A device may change its host name this often: each change is audited. */
const RENAME_EVERY = `interval '1 minute'`;

/** A device whose facts have changed, with what they were before. */
export interface WrittenFacts {
  id: string;
  org_id: string;
  partner_id: string;
  hostname: string;
  old_hostname: string;
  reported: string;
  serial: string | null;
  old_serial: string | null;
  last_ip: string | null;
}

const REPORTED = `u as materialized (
    select * from jsonb_to_recordset(?::jsonb) as u ("deviceId" uuid, "agentVersion" text, capabilities text[],
      "osVersion" text, "osBuild" text, "watchdogVersion" text, "lastUser" text, "pendingReboot" boolean,
      "autoUpdate" boolean, hostname text, hardware jsonb, network jsonb)
  )`;

// Locked in the order of their ids, as every change of many devices does, and by a statement of its own
// (docs/adding-a-feature.md).
const LOCK = `
  with ${REPORTED}
  select d.id, d.hostname as old_hostname, d.hardware ->> 'serialNumber' as old_serial,
    coalesce(u.hostname, d.hostname) as reported,
    coalesce(u.hostname, d.hostname) <> d.hostname
      and coalesce(d.renamed_at <= now() - ${RENAME_EVERY}, true) as is_renamed
  from devices d join u on u."deviceId" = d.id
  where (d.agent_version, d.capabilities, d.os_version, d.os_build, d.watchdog_version, d.last_user,
      d.pending_reboot, d.auto_update, d.hostname, d.hardware, d.network)
    is distinct from (u."agentVersion", coalesce(u.capabilities, d.capabilities),
      coalesce(u."osVersion", d.os_version), coalesce(u."osBuild", d.os_build),
      coalesce(u."watchdogVersion", d.watchdog_version), coalesce(u."lastUser", d.last_user),
      coalesce(u."pendingReboot", d.pending_reboot), coalesce(u."autoUpdate", d.auto_update),
      coalesce(u.hostname, d.hostname), d.hardware || u.hardware, d.network || u.network)
  order by d.id for no key update of d`;

const WRITE = `
  with ${REPORTED}, n as materialized (
    select * from jsonb_to_recordset(?::jsonb)
      as n (id uuid, old_hostname text, old_serial text, reported text, is_renamed boolean)
  )
  update devices d set
    agent_version = u."agentVersion", capabilities = coalesce(u.capabilities, d.capabilities),
    os_version = coalesce(u."osVersion", d.os_version), os_build = coalesce(u."osBuild", d.os_build),
    watchdog_version = coalesce(u."watchdogVersion", d.watchdog_version),
    last_user = coalesce(u."lastUser", d.last_user), pending_reboot = coalesce(u."pendingReboot", d.pending_reboot),
    auto_update = coalesce(u."autoUpdate", d.auto_update),
    hostname = case when n.is_renamed then n.reported else d.hostname end,
    renamed_at = case when n.is_renamed then now() else d.renamed_at end,
    hardware = d.hardware || u.hardware, network = d.network || u.network, updated_at = now()
  from n join u on u."deviceId" = n.id join organizations o on true
  where d.id = n.id and o.id = d.org_id
  returning d.id, d.org_id, o.partner_id, d.hostname, n.old_hostname, n.reported,
    d.hardware ->> 'serialNumber' as serial, n.old_serial,
    (select p.last_ip from device_presence p where p.device_id = d.id) as last_ip`;

/** Writes what machines report of themselves if it differs. The columns are named as in `WRITE`. */
export async function writeChangedFacts(tx: Tx, facts: readonly object[]): Promise<WrittenFacts[]> {
  const reported = JSON.stringify(facts);
  const differing = await tx.raw<{ rows: object[] }>(LOCK, [reported]);
  if (differing.rows.length === 0) return [];
  const { rows } = await tx.raw<{ rows: WrittenFacts[] }>(WRITE, [reported, JSON.stringify(differing.rows)]);
  return rows;
}
