import {
  endExpiredMaintenance,
  organizationsWithExpiredMaintenance,
  type LockedDevice,
  AT_ONCE,
} from './device-update.queries.ts';
import type { DeviceHub } from '../../hub/index.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import { RepeatedCheck } from '../../platform/jobs/repeated-check.ts';
import type { Logger } from '../../platform/logger.ts';
import { RetryBackoff } from '../../platform/retry-backoff.ts';
import type { Context } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import { Device } from './device.model.ts';
import { readDevice } from './device.service.ts';
import { lockDevice } from './device-update.service.ts';
import type { Maintenance } from './device.schema.ts';

/** How late maintenance ends at most. A check costs one step into an index that is mostly empty. */
const EVERY_MS = 2000;

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
      organizationsWithExpiredMaintenance(tx),
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
      const rows = await endExpiredMaintenance(tx, { only, without });
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

/** Starts or ends maintenance. Starting it again replaces its end; ending it twice is no error. */
export async function changeMaintenance(ctx: Context, id: string, wanted: Maintenance, hub: DeviceHub) {
  const device = await lockDevice(ctx, id);
  const why = maintenanceRefusal(device);
  if (why !== undefined) throw new AppError('conflict', why);
  const changes = changesOf(wanted);
  await setMaintenance(ctx, [id], wanted);
  ctx.recordChange({ condition: device.condition, maintenanceUntil: device.maintenanceUntil }, changes);
  ctx.afterCommit(() => hub.devicesChanged([id]));
  return readDevice(ctx, id);
}

/** Why a device cannot be put into maintenance; `undefined` if it can. Any other condition takes precedence. */
export function maintenanceRefusal({ condition }: Pick<LockedDevice, 'condition'>): string | undefined {
  if (condition === 'normal' || condition === 'maintenance') return undefined;
  return `Not allowed while the device is ${condition}.`;
}

export async function setMaintenance(
  ctx: Context,
  ids: readonly string[],
  wanted: Maintenance,
): Promise<void> {
  await Device.query(ctx.tx)
    .whereRaw('id = any(?::uuid[])', [[...ids]])
    .patch(changesOf(wanted));
}

const changesOf = ({ enabled, until }: Maintenance) => ({
  condition: enabled ? ('maintenance' as const) : ('normal' as const),
  maintenanceUntil: enabled ? (until ?? null) : null,
});
