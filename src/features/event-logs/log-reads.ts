import type { LogRead, LogReads } from '../../hub/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { withTenant } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';

/** Of a question to many devices, so many are named in the entry. */
const NAMED_DEVICES = 100;

interface ReadRow {
  id: string;
  hostname: string;
  orgId: string;
  partnerId: string;
}

/**
 * Writes down who reads the logs of which devices, by what conditions and never with what they found: one entry for each
 * organization, in its own chain, so that it also sees the reads of others, such as a system administrator.
 */
export function createLogReads({ db, audit, log }: { db: Db; audit: AuditTrail; log: Logger }): LogReads {
  return {
    async record({ caller, client, deviceIds, ...asked }) {
      const isWritten = await withTenant(db, caller, async (tx) => {
        const { rows } = await tx.raw<{ rows: ReadRow[] }>(
          `select d.id, d.hostname, d.org_id as "orgId", o.partner_id as "partnerId"
          from devices d join organizations o on o.id = d.org_id
          where d.id = any(?::uuid[]) and ${inTenant(caller, 'd.org_id')} order by d.id`,
          [[...deviceIds]],
        );
        const entries = entriesOf(rows, asked).map((entry) => ({
          ...entry,
          actor: caller,
          state: { client, log },
        }));
        await audit.recordAll(tx, entries);
        return entries.length > 0;
      });
      if (isWritten) audit.committed();
    },
  };
}

function entriesOf(devices: readonly ReadRow[], { how, conditions }: Pick<LogRead, 'how' | 'conditions'>) {
  const byOrganization = new Map<string, ReadRow[]>();
  for (const device of devices) {
    const others = byOrganization.get(device.orgId);
    if (others === undefined) byOrganization.set(device.orgId, [device]);
    else others.push(device);
  }
  return [...byOrganization.values()].flatMap((some) => {
    const [first] = some;
    if (first === undefined) return [];
    const { orgId, partnerId } = first;
    const about =
      some.length === 1
        ? { resourceId: first.id, resourceName: first.hostname, details: { how, conditions } }
        : {
            details: {
              how,
              conditions,
              devices: some.length,
              deviceIds: some.slice(0, NAMED_DEVICES).map(({ id }) => id),
            },
          };
    return [{ action: 'data.access', resourceType: 'device', orgId, partnerId, ...about }];
  });
}
