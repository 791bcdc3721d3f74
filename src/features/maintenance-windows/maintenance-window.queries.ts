import type { Context } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { nameOrder } from '../../platform/db/statement.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { withDevicesOfTarget } from '../device-targets/index.ts';
import { whereOwnerAccessible } from '../owners/index.ts';
import { MaintenanceWindow } from './maintenance-window.model.ts';
import type { Occurrence } from './occurrences.ts';

/** The windows that the caller may see. */
export const accessibleWindows = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  whereOwnerAccessible(MaintenanceWindow.query(ctx.tx), ctx, 'maintenance_windows');

/** @param orgId  only windows that cover devices of this organization: its own, and those of its partner */
export const accessibleWindowsByName = (ctx: Pick<Context, 'tx' | 'caller'>, orgId: string | undefined) =>
  accessibleWindows(ctx)
    .modify((windows) => {
      if (orgId === undefined) return;
      void windows.whereRaw(
        `(maintenance_windows.org_id = :orgId or maintenance_windows.org_id is null
          and maintenance_windows.partner_id = (select o.partner_id from organizations o where o.id = :orgId))`,
        { orgId },
      );
    })
    .orderByRaw(`${nameOrder('name')}, id`);

/** The devices that have a row of the window. */
export async function membersOf(tx: Tx, windowId: string): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { device_id: string }[] }>(
    'select distinct device_id from maintenance_members where window_id = ?',
    [windowId],
  );
  return rows.map(({ device_id: id }) => id);
}

/** Maintenance of a device that is in progress. */
export interface CurrentMaintenance {
  windowId: string;
  name: string;
  until: Date;
}

/**
 * The devices that are in an occurrence that keeps back alerts or upgrades, each with the one that ends last. Maintenance
 * that a person has switched on for a device alone is not among it.
 */
export async function devicesInMaintenance(
  tx: Tx,
  deviceIds: readonly string[],
  suppressed: 'alerts' | 'upgrades',
): Promise<Map<string, CurrentMaintenance>> {
  const column = suppressed === 'alerts' ? 'suppress_alerts' : 'suppress_upgrades';
  const { rows } = await tx.raw<{ rows: (CurrentMaintenance & { deviceId: string })[] }>(
    `select distinct on (m.device_id) m.device_id as "deviceId", m.window_id as "windowId", m.name, m.ends_at as until
    from devices d join maintenance_members m on m.org_id = d.org_id and m.device_id = d.id
    where d.id = any(?::uuid[]) and m.${column} and m.starts_at <= now() and m.ends_at > now()
    order by m.device_id, m.ends_at desc`,
    [[...deviceIds]],
  );
  return new Map(rows.map(({ deviceId, ...maintenance }) => [deviceId, maintenance]));
}

/** An occurrence that keeps back the upgrades of a device: in progress, or about to begin. */
export interface UpgradePause {
  windowId: string;
  deviceId: string;
  name: string;
  startsAt: Date;
  endsAt: Date;
}

/** Of all windows, or of some. */
export async function upgradePauses(
  tx: Tx,
  windowIds: readonly string[] | undefined,
): Promise<UpgradePause[]> {
  const ofSome = windowIds === undefined ? '' : 'and m.window_id = any(:windowIds::uuid[])';
  const { rows } = await tx.raw<{ rows: UpgradePause[] }>(
    `select m.window_id as "windowId", m.device_id as "deviceId", m.name, m.starts_at as "startsAt",
      m.ends_at as "endsAt"
    from maintenance_members m where m.suppress_upgrades and m.ends_at > now() ${ofSome}`,
    windowIds === undefined ? {} : { windowIds: [...windowIds] },
  );
  return rows;
}

/** Takes a window that is due, unless another server is at it. */
export async function lockDueWindow(
  tx: Tx,
  { now, without }: { now: Date; without: readonly string[] },
): Promise<MaintenanceWindow | undefined> {
  return MaintenanceWindow.query(tx)
    .where('due_at', '<=', now)
    .whereRaw('id <> all(?::uuid[])', [[...without]])
    .orderBy('due_at')
    .first()
    .forUpdate()
    .skipLocked();
}

/** Stores what a server has found out about a window. It is no change by a person, so `updated_at` stays. */
export async function storeStanding(
  tx: Tx,
  id: string,
  { dueAt, shownUntil, overSince }: Pick<MaintenanceWindow, 'dueAt' | 'shownUntil' | 'overSince'>,
): Promise<void> {
  await tx('maintenance_windows')
    .where({ id })
    .update({ due_at: dueAt, shown_until: shownUntil, over_since: overSince });
}

const FACTS = `jsonb_to_recordset(:occurrences::jsonb) as o ("startsAt" timestamptz, "endsAt" timestamptz,
  "plannedFrom" timestamptz)`;

/** An occurrence, and from when on a device that joins it now counts as being in planned maintenance. */
export interface PlannedOccurrence extends Occurrence {
  plannedFrom: Date;
}

/**
 * Makes the rows of a window equal to the devices that its target has now, for the occurrences that are near. The caller
 * holds the lock of the window. Rows of an occurrence that has ended stay until the devices have had time to come back.
 * @returns the devices that changed
 */
export async function reconcileMembers(
  tx: Tx,
  window: MaintenanceWindow,
  { occurrences, now, keptMs }: { occurrences: readonly PlannedOccurrence[]; now: Date; keptMs: number },
): Promise<string[]> {
  const { id: windowId, partnerId, orgId, name, suppressAlerts, suppressUpgrades, target } = window;
  const bindings = {
    windowId,
    name,
    suppressAlerts,
    suppressUpgrades,
    now,
    over: new Date(now.getTime() - keptMs),
    occurrences: JSON.stringify(occurrences),
  };
  const changed = new Set<string>();
  const run = async (sql: string, more: Record<string, unknown> = {}) => {
    const { rows } = await tx.raw<{ rows: { device_id: string }[] }>(sql, { ...bindings, ...more } as never);
    for (const { device_id: id } of rows) changed.add(id);
  };
  // An occurrence that is not planned any more ends now.
  await run(
    `update maintenance_members m set ends_at = f.ends_at, name = :name, suppress_alerts = :suppressAlerts,
      suppress_upgrades = :suppressUpgrades
    from (
      select had.starts_at, coalesce(o."endsAt", least(had.ends_at, :now::timestamptz)) as ends_at
      from (select starts_at, max(ends_at) as ends_at from maintenance_members
        where window_id = :windowId group by starts_at) as had
      left join ${FACTS} on o."startsAt" = had.starts_at
    ) as f
    where m.window_id = :windowId and m.starts_at = f.starts_at
      and (m.ends_at, m.name, m.suppress_alerts, m.suppress_upgrades)
        is distinct from (f.ends_at, :name, :suppressAlerts::boolean, :suppressUpgrades::boolean)
    returning m.device_id`,
  );
  await run(
    `delete from maintenance_members where window_id = :windowId and (ends_at <= :over or ends_at <= starts_at)
    returning device_id`,
  );
  if (occurrences.every(({ endsAt }) => endsAt <= now)) return [...changed];
  await withDevicesOfTarget(tx, { partnerId, orgId }, target, (devices) =>
    run(
      `with wanted as materialized (:devices), near as (
        select * from ${FACTS} where o."endsAt" > :now::timestamptz
      ), gone as (
        delete from maintenance_members m where m.window_id = :windowId and m.ends_at > :now::timestamptz
          and not exists (select from wanted where wanted.id = m.device_id)
        returning m.device_id
      ), joined as (
        insert into maintenance_members (window_id, org_id, device_id, name, starts_at, ends_at,
          planned_from, suppress_alerts, suppress_upgrades)
        select :windowId::uuid, wanted.org_id, wanted.id, :name, near."startsAt", near."endsAt",
          near."plannedFrom", :suppressAlerts::boolean, :suppressUpgrades::boolean
        from wanted cross join near
        where not exists (select from maintenance_members m
          where m.window_id = :windowId and m.starts_at = near."startsAt" and m.device_id = wanted.id)
        order by wanted.id
        on conflict do nothing returning device_id
      )
      select device_id from gone union select device_id from joined`,
      { devices },
    ),
  );
  return [...changed];
}

/** Runs a step for one due window in a transaction of its own. @returns undefined if none is due */
export function withDueWindow<T>(
  db: Db,
  choice: { now: Date; without: readonly string[] },
  run: (tx: Tx, window: MaintenanceWindow) => Promise<T>,
): Promise<T | undefined> {
  return withSystem(db, 'follow the maintenance windows of all tenants', async (tx) => {
    const window = await lockDueWindow(tx, choice);
    return window === undefined ? undefined : run(tx, window);
  });
}
