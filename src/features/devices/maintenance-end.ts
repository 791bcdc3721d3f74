import type { DeviceHub } from '../../hub/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';

/** How late maintenance ends at most; to look costs one step into an index that is mostly empty. */
const EVERY_MS = 2000;
const AT_ONCE = 1000;

interface Ended {
  id: string;
  org_id: string;
  partner_id: string;
  hostname: string;
  until: Date;
}

// One that is being changed at this moment is left for the next look, as is one that another node is ending.
const END = `
  with over as (
    select d.id, o.partner_id, d.maintenance_until as until
    from devices d join organizations o on o.id = d.org_id
    where d.condition = 'maintenance' and d.maintenance_until <= now()
    order by d.maintenance_until limit ${AT_ONCE} for no key update of d skip locked
  )
  update devices d set condition = 'normal', maintenance_until = null, updated_at = now()
  from over where d.id = over.id
  returning d.id, d.org_id, over.partner_id, d.hostname, over.until`;

/** Ends maintenance whose time is over, also what ended while no server ran. Every node looks; one of them finds each. */
export class MaintenanceEnd {
  readonly #parts: { db: Db; hub: DeviceHub; audit: AuditTrail; log: Logger };
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #isFailing = false;
  #isClosed = false;

  constructor(parts: { db: Db; hub: DeviceHub; audit: AuditTrail; log: Logger }) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setTimeout(() => {
      this.#running = this.#look().then(() => {
        if (!this.#isClosed) this.start();
      });
    }, EVERY_MS).unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  /** Answers of how many devices it has ended. */
  async endThoseOver(): Promise<number> {
    let ended = 0;
    let some = AT_ONCE;
    while (some === AT_ONCE && !this.#isClosed) {
      some = await this.#endSome();
      ended += some;
    }
    return ended;
  }

  async #look(): Promise<void> {
    try {
      await this.endThoseOver();
      this.#isFailing = false;
    } catch (error) {
      // Once for each time that the database is away.
      if (!this.#isFailing) this.#parts.log.warn({ err: error }, 'devices.maintenance_not_ended');
      this.#isFailing = true;
    }
  }

  async #endSome(): Promise<number> {
    const { db, hub, audit, log } = this.#parts;
    const ended = await withSystem(db, 'end maintenance whose time is over', async (tx) => {
      const { rows } = await tx.raw<{ rows: Ended[] }>(END);
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
