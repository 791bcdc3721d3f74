import type { DeviceFacts } from '../../../hub/ports.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import type { Logger } from '../../../platform/logger.ts';
import { firmwareValue, tellingSerial } from '../../../protocol/index.ts';
import { type ChangedSerial, raiseSerialConflicts } from './conflict-alerts.ts';

/** Writes what agents report about their machines, and notices where it is another name or another machine. */

/** A device may change its host name this often: each change is audited. */
const RENAME_EVERY = `interval '1 minute'`;

interface Parts {
  audit: AuditTrail;
  log: Logger;
}

export interface Renamed {
  deviceId: string;
  orgId: string;
  partnerId: string;
  before: string;
  after: string;
  ip: string | null;
}

interface Written {
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

// Locked in the order of their ids, as every change of many devices does.
const WRITE = `
  with u as materialized (
    select * from jsonb_to_recordset(?::jsonb) as u ("deviceId" uuid, "agentVersion" text, capabilities text[],
      "osVersion" text, "osBuild" text, "watchdogVersion" text, "lastUser" text, "pendingReboot" boolean,
      "autoUpdate" boolean, hostname text, hardware jsonb, network jsonb)
  ), differing as materialized (
    select d.id, d.hostname as old_hostname, d.hardware ->> 'serialNumber' as old_serial,
      coalesce(u.hostname, d.hostname) as reported
    from devices d join u on u."deviceId" = d.id
    where (d.agent_version, d.capabilities, d.os_version, d.os_build, d.watchdog_version, d.last_user,
        d.pending_reboot, d.auto_update, d.hostname, d.hardware, d.network)
      is distinct from (u."agentVersion", coalesce(u.capabilities, d.capabilities),
        coalesce(u."osVersion", d.os_version), coalesce(u."osBuild", d.os_build),
        coalesce(u."watchdogVersion", d.watchdog_version), coalesce(u."lastUser", d.last_user),
        coalesce(u."pendingReboot", d.pending_reboot), coalesce(u."autoUpdate", d.auto_update),
        coalesce(u.hostname, d.hostname), d.hardware || u.hardware, d.network || u.network)
    order by d.id for no key update of d
  ), named as (
    select f.*, f.reported <> f.old_hostname and coalesce(d.renamed_at <= now() - ${RENAME_EVERY}, true) as is_renamed
    from differing f join devices d on d.id = f.id
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
  from named n join u on u."deviceId" = n.id join organizations o on true
  where d.id = n.id and o.id = d.org_id
  returning d.id, d.org_id, o.partner_id, d.hostname, n.old_hostname, n.reported,
    d.hardware ->> 'serialNumber' as serial, n.old_serial,
    (select p.last_ip from device_presence p where p.device_id = d.id) as last_ip`;

export async function writeMachineFacts(
  tx: Tx,
  facts: readonly DeviceFacts[],
  parts: Parts,
): Promise<{ changed: string[]; postponed: string[]; isAudited: boolean }> {
  const { rows } = await tx.raw<{ rows: Written[] }>(WRITE, [JSON.stringify(facts.map(columnsOf))]);
  const renamed = rows.filter((row) => row.hostname !== row.old_hostname);
  await noteRenames(
    tx,
    renamed.map((row) => ({
      deviceId: row.id,
      orgId: row.org_id,
      partnerId: row.partner_id,
      before: row.old_hostname,
      after: row.hostname,
      ip: row.last_ip,
    })),
    parts,
  );
  await raiseSerialConflicts(tx, rows.flatMap(changedSerialOf));
  return {
    changed: rows.map(({ id }) => id),
    postponed: rows.filter((row) => row.hostname !== row.reported).map(({ id }) => id),
    isAudited: renamed.length > 0,
  };
}

/** What was not reported, or is a placeholder, changes nothing. */
function columnsOf({ hostname, serialNumber, macAddresses, ...facts }: DeviceFacts): object {
  const serial = firmwareValue(serialNumber);
  return {
    ...facts,
    ...(hostname === undefined || hostname === '' ? {} : { hostname }),
    hardware: serial === undefined ? {} : { serialNumber: serial },
    network: macAddresses === undefined || macAddresses.length === 0 ? {} : { macAddresses },
  };
}

const changedSerialOf = (row: Written): ChangedSerial[] =>
  isOtherMachine(row.old_serial, row.serial)
    ? [
        {
          orgId: row.org_id,
          deviceId: row.id,
          hostname: row.hostname,
          before: row.old_serial ?? '',
          after: row.serial ?? '',
        },
      ]
    : [];

/** Whether two serial numbers are of two machines. One that says nothing is of any machine. */
export function isOtherMachine(before: string | null | undefined, after: string | null | undefined): boolean {
  const [known, now] = [tellingSerial(before), tellingSerial(after)];
  return known !== undefined && now !== undefined && known !== now;
}

/** Audits changed host names, in the transaction that writes them. The display name, which people have chosen, stays. */
export async function noteRenames(tx: Tx, renamed: readonly Renamed[], { audit, log }: Parts): Promise<void> {
  if (renamed.length === 0) return;
  await audit.recordAll(
    tx,
    renamed.map(({ deviceId, orgId, partnerId, before, after, ip }) => ({
      action: 'device.renamed',
      resourceType: 'device',
      resourceId: deviceId,
      resourceName: after,
      details: { before: { hostname: before }, after: { hostname: after } },
      actor: { kind: 'agent', deviceId, orgId, partnerId },
      state: { client: { ip, userAgent: null }, log },
    })),
  );
}
