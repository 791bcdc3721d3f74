import type { Tx } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';

/** What is another about devices than before, found while a batch of them is written. */

interface Moved {
  device_id: string;
  org_id: string;
  partner_id: string;
  hostname: string;
  before: string;
  after: string;
}

interface Written {
  /** They come from another address. */
  moved: Moved[];
  /** They have come, or gone. */
  turned: string[];
}

/**
 * Writes presence by `upsert`, and answers who has come, gone, or come from another address by that: of heartbeats
 * mostly nobody. What was there before is read in the same statement, so it costs no round trip.
 * @param deviceIds  the literal of an array
 */
export async function writePresence(
  tx: Tx,
  upsert: string,
  deviceIds: string,
  values: readonly string[],
): Promise<Written> {
  const { rows } = await tx.raw<{ rows: (Moved & { hasMoved: boolean; hasTurned: boolean })[] }>(
    `with earlier as materialized (
      select device_id, last_ip, state, reports_until > now() as reports from device_presence where device_id = any(?::uuid[])
    ), written as (${upsert} returning device_id, last_ip, state, reports_until > now() as reports),
    changed as (
      select w.device_id, e.last_ip as before, w.last_ip as after, coalesce(e.last_ip <> w.last_ip, false) as "hasMoved",
        (e.state, coalesce(e.reports, false)) is distinct from (w.state, coalesce(w.reports, false)) as "hasTurned"
      from written w left join earlier e on e.device_id = w.device_id
    )
    select d.id as device_id, d.org_id, o.partner_id, d.hostname, c.before, c.after, c."hasMoved", c."hasTurned"
    from changed c join devices d on d.id = c.device_id join organizations o on o.id = d.org_id
    where c."hasMoved" or c."hasTurned"`,
    [deviceIds, ...values],
  );
  return {
    moved: rows.filter(({ hasMoved }) => hasMoved),
    turned: rows.filter(({ hasTurned }) => hasTurned).map(({ device_id: deviceId }) => deviceId),
  };
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
