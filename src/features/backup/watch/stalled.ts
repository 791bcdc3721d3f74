import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { followCauses, type NewAlert } from '../../alerts/index.ts';
import { STALLED } from '../core/alert-kinds.ts';

/** So long without an advance, and work that runs has stalled. */
const STALLED_AFTER_MINUTES = 15;

/**
 * Marks the backups and restores that run and have not advanced, and makes the alerts follow. A trigger takes the mark
 * away when the device reports an advance (migration 0093).
 */
export const watchStalled = (db: Db): Promise<void> =>
  withSystem(db, 'find backups and restores that go on no more', async (tx) => {
    // Jobs first: every transaction that locks both does it in this order.
    await tx.raw(markStalled('backup_jobs', 'and w.command_id is not null'));
    await tx.raw(markStalled('backup_restores'));
    const alerts = await stalledAlerts(tx);
    await followCauses(tx, { kind: STALLED, alerts, why: 'The work goes on, or has ended.' });
  });

/** @param rows  of the open ones, those that an index has */
const markStalled = (table: 'backup_jobs' | 'backup_restores', rows = '') =>
  `update ${table} w set stalled_since = coalesce(w.advanced_at, w.started_at)
  where w.finished_at is null ${rows} and w.status = 'running' and w.stalled_since is null
    and coalesce(w.advanced_at, w.started_at) < now() - interval '${STALLED_AFTER_MINUTES} minutes'`;

const STALLED_WORK = `
  select d.org_id as "orgId", d.id as "deviceId", coalesce(nullif(d.display_name, ''), d.hostname) as "deviceName",
    count(*) filter (where w.kind = 'backup')::int as backups, count(*) filter (where w.kind = 'restore')::int as restores,
    min(w.stalled_since) as since,
    coalesce(bool_or(p.state = 'connected'), false) as "isConnected"
  from (
    select 'backup' as kind, device_id, stalled_since from backup_jobs
    where finished_at is null and command_id is not null and stalled_since is not null
    union all
    select 'restore', device_id, stalled_since from backup_restores
    where finished_at is null and stalled_since is not null
  ) w
  join devices d on d.id = w.device_id and d.condition <> 'decommissioned'
  left join device_presence p on p.device_id = d.id
  group by d.id`;

interface StalledDevice {
  orgId: string;
  deviceId: string;
  deviceName: string;
  backups: number;
  restores: number;
  since: Date;
  isConnected: boolean;
}

async function stalledAlerts(tx: Tx): Promise<NewAlert[]> {
  const { rows } = await tx.raw<{ rows: StalledDevice[] }>(STALLED_WORK);
  return rows.map(({ orgId, deviceId, deviceName, backups, restores, since, isConnected }) => ({
    orgId,
    deviceId,
    kind: STALLED,
    severity: 'medium',
    title: `${deviceName}: a ${backups > 0 ? 'backup' : 'restore'} does not advance`,
    message: `Nothing has moved since ${since.toISOString()}. The device is ${isConnected ? '' : 'not '}connected.`,
    details: { backups, restores, since: since.toISOString() },
  }));
}
