import type { Tx } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';

/** Devices that come from another address than before, found while a batch of them is written. */

interface Moved {
  device_id: string;
  org_id: string;
  partner_id: string;
  hostname: string;
  before: string;
  after: string;
}

/**
 * Writes presence by `upsert`, and answers whose address that has changed: mostly nobody's. What was there before is
 * read in the same statement, so it costs no round trip.
 * @param deviceIds  the literal of an array
 */
export async function writePresence(
  tx: Tx,
  upsert: string,
  deviceIds: string,
  values: readonly string[],
): Promise<Moved[]> {
  const { rows } = await tx.raw(
    `with earlier as materialized (
      select device_id, last_ip from device_presence where device_id = any(?::uuid[])
    ), written as (${upsert} returning device_id, last_ip)
    select d.id as device_id, d.org_id, o.partner_id, d.hostname, e.last_ip as before, w.last_ip as after
    from written w join earlier e on e.device_id = w.device_id and e.last_ip <> w.last_ip
    join devices d on d.id = w.device_id join organizations o on o.id = d.org_id`,
    [deviceIds, ...values],
  );
  return rows as Moved[];
}

/** In the transaction that writes the new address, a whole fleet that comes by another proxy at once. */
export async function noteMoves(
  tx: Tx,
  moves: readonly Moved[],
  { audit, log }: { audit: AuditTrail; log: Logger },
): Promise<void> {
  await audit.recordAll(
    tx,
    moves.map(({ device_id: deviceId, org_id: orgId, partner_id: partnerId, hostname, before, after }) => ({
      action: 'agent.source.ip.changed',
      resourceType: 'device',
      resourceId: deviceId,
      resourceName: hostname,
      details: { before, after },
      actor: { kind: 'agent', deviceId, orgId, partnerId },
      state: { client: { ip: after, userAgent: null }, log },
    })),
  );
}
