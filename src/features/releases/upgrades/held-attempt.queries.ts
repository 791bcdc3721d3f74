import type { Tx } from '../../../platform/db/transaction.ts';
import type { PinnedComponent } from '../targets/target.schema.ts';
import type { HeldAttempt } from './held-attempt.ts';

interface HeldRow {
  device_id: string;
  component: PinnedComponent;
  target_version: string;
  state: HeldAttempt['state'];
  retry_at: Date | null;
  started_at: Date;
  updated_at: Date;
}

/** The attempts that decide about offers: those that have not ended, and those whose version waits. Of some devices, or of all. */
export async function heldAttempts(
  tx: Tx,
  deviceIds: readonly string[] | undefined,
): Promise<(HeldAttempt & { deviceId: string })[]> {
  const ofSome = deviceIds === undefined ? '' : 'and device_id = any(:deviceIds::uuid[])';
  // Each half has an index of its own.
  const { rows } = await tx.raw<{ rows: HeldRow[] }>(
    `select device_id, component, target_version, state, retry_at, started_at, updated_at
      from device_upgrades where finished_at is null ${ofSome}
    union all
    select device_id, component, target_version, state, retry_at, started_at, updated_at
      from device_upgrades where finished_at is not null and retry_at is not null and retry_at > now() ${ofSome}`,
    deviceIds === undefined ? {} : { deviceIds: [...deviceIds] },
  );
  return rows.map((row) => ({
    deviceId: row.device_id,
    component: row.component,
    targetVersion: row.target_version,
    state: row.state,
    retryAt: row.retry_at,
    startedAt: row.started_at,
    updatedAt: row.updated_at,
  }));
}
