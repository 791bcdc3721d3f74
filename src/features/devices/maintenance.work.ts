import type { DeviceHub } from '../../../hub/index.ts';
import { isDatabaseAway } from '../../../platform/db/database-errors.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import { RepeatedCheck } from '../../../platform/jobs/repeated-check.ts';
import type { Logger } from '../../../platform/logger.ts';
import { RetryBackoff } from '../../../platform/retry-backoff.ts';

/** How late maintenance ends at most. A check costs one step into an index that is mostly empty. */
const EVERY_MS = 2000;
const AT_ONCE = 1000;

interface Ended {
  id: string;
  org_id: string;
  partner_id: string;
  hostname: string;
  until: Date;
}

// A device that is being changed, or whose maintenance another node is ending, is left for the next check.
const END = `
  with over as (
    select d.id, o.partner_id, d.maintenance_until as until
    from devices d join organizations o on o.id = d.org_id
    where d.condition = 'maintenance' and d.maintenance_until <= now()
      and (?::uuid is null or d.org_id = ?::uuid) and not d.org_id = any(?::uuid[])
    order by d.maintenance_until limit ${AT_ONCE} for no key update of d skip locked
  )
  update devices d set condition = 'normal', maintenance_until = null, updated_at = now()
  from over where d.id = over.id
  returning d.id, d.org_id, over.partner_id, d.hostname, over.until`;

const WAITING = `select distinct org_id from devices where condition = 'maintenance' and maintenance_until <= now()`;

/** Which organizations: one, or all but some. */
interface Choice {
  only?: string;
  without?: readonly string[];
}

/** Ends maintenance that has expired, also while no server ran. Every node checks; each device is ended by one of them. */
export class MaintenanceEnd {
  readonly #parts: { db: Db; hub: DeviceHub; audit: AuditTrail; log: Logger };
  readonly #aside = new RetryBackoff();
  readonly #checks: RepeatedCheck;

  constructor(parts: { db: Db; hub: DeviceHub; audit: AuditTrail; log: Logger }) {
    this.#parts = parts;
    this.#checks = new RepeatedCheck({
      everyMs: EVERY_MS,
      check: () => this.endExpired(),
      onFailing: (error) => parts.log.warn({ err: error }, 'devices.maintenance_not_ended'),
    });
  }

  start(): void {
    this.#checks.start();
  }

  settle(): Promise<void> {
    return this.#checks.settle();
  }

  close(): Promise<void> {
    return this.#checks.close();
  }

  /** Returns the number of devices whose maintenance it ended. */
  async endExpired(): Promise<number> {
    const without = this.#aside.notDue();
    try {
      const ended = await this.#endAll({ without });
      this.#aside.keepOnly(new Set(without));
      return ended;
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      return this.#endOneByOne(without);
    }
  }

  /** Organization by organization, when a failure in one of them blocks all others. */
  async #endOneByOne(without: readonly string[]): Promise<number> {
    const { db, log } = this.#parts;
    const { rows } = await withSystem(db, 'find the organizations with expired maintenance', (tx) =>
      tx.raw<{ rows: { org_id: string }[] }>(WAITING),
    );
    let ended = 0;
    for (const { org_id: orgId } of rows) {
      if (without.includes(orgId)) continue;
      try {
        ended += await this.#endAll({ only: orgId });
        this.#aside.release(orgId);
      } catch (error) {
        if (isDatabaseAway(error)) throw error;
        const retryMs = this.#aside.put(orgId);
        log.warn({ err: error, orgId, retryMs }, 'devices.maintenance_of_organization_not_ended');
      }
    }
    return ended;
  }

  async #endAll(choice: Choice): Promise<number> {
    let ended = 0;
    let some = AT_ONCE;
    while (some === AT_ONCE && !this.#checks.isClosed) {
      some = await this.#endSome(choice);
      ended += some;
    }
    return ended;
  }

  async #endSome({ only, without = [] }: Choice): Promise<number> {
    const { db, hub, audit, log } = this.#parts;
    const ended = await withSystem(db, 'end expired maintenance', async (tx) => {
      const { rows } = await tx.raw<{ rows: Ended[] }>(END, [
        only ?? null,
        only ?? null,
        [...without],
      ] as string[]);
      await audit.recordAll(
        tx,
        rows.map(({ id, org_id: orgId, partner_id: partnerId, hostname, until }) => ({
          action: 'device.maintenance',
          resourceType: 'device',
          resourceId: id,
          resourceName: hostname,
          details: { enabled: false, until: until.toISOString() },
          actor: { kind: 'system' as const, orgId, partnerId },
          state: { client: { ip: null, userAgent: null }, log },
        })),
      );
      return rows.map(({ id }) => id);
    });
    if (ended.length > 0) {
      audit.committed();
      hub.devicesChanged(ended);
    }
    return ended.length;
  }
}
