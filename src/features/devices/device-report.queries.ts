import { z } from 'zod';
import { reportPart } from '../report-part.ts';

/**
 * SQL: when a device left service; null if it has not. Where the time itself is not known, because it was before the server
 * noted it, the last change of the record stands for it.
 */
export const leftServiceAtSql = (d: string): string =>
  `case when ${d}.condition = 'decommissioned' then coalesce(${d}.decommissioned_at, ${d}.updated_at) end`;

/** SQL: whether a record counts as a device of the organization. One that never passed its approval does not. */
export const wasInServiceSql = (d: string): string =>
  `${d}.condition <> 'pending' and ${d}.decommissioned_from is distinct from 'pending'`;

const count = z.number().int();

const DeviceReport = z
  .object({
    total: count.describe('Devices in service at the end.'),
    added: count.describe('Devices that were added. One that was enrolled again is not new.'),
    removed: count.describe('Devices taken out of service.'),
    bySystem: z.array(z.object({ osType: z.enum(['windows', 'macos', 'linux']), count })),
  })
  .meta({ id: 'DeviceReport' });

/** Of the devices that belong to the organization now: what has moved away or was deleted is not known here. */
export const deviceReport = reportPart({
  shape: DeviceReport,
  async read({ tx }, { orgId, from, to }) {
    interface Row {
      total: number;
      added: number;
      removed: number;
      windows: number;
      macos: number;
      linux: number;
    }
    const isThere = '(left_at is null or left_at >= :to)';
    const { rows } = await tx.raw<{ rows: [Row] }>(
      `select count(*) filter (where ${isThere})::integer as total,
        count(*) filter (where created_at >= :from)::integer as added,
        count(*) filter (where left_at >= :from and left_at < :to)::integer as removed,
        count(*) filter (where ${isThere} and os_type = 'windows')::integer as windows,
        count(*) filter (where ${isThere} and os_type = 'macos')::integer as macos,
        count(*) filter (where ${isThere} and os_type = 'linux')::integer as linux
      from (select d.created_at, d.os_type, ${leftServiceAtSql('d')} as left_at from devices d
        where d.org_id = :orgId and d.created_at < :to and ${wasInServiceSql('d')}) mine`,
      { orgId, from, to },
    );
    const [{ total, added, removed, ...systems }] = rows;
    const bySystem = (['windows', 'macos', 'linux'] as const)
      .map((osType) => ({ osType, count: systems[osType] }))
      .filter((system) => system.count > 0);
    return { total, added, removed, bySystem };
  },
});
