import type { Tx } from '../../platform/db/transaction.ts';

interface NewRows {
  ids: readonly string[];
  devices: readonly { id: string; orgId: string }[];
  type: string;
  payload: object;
  createdBy: string | null;
  timeoutSeconds: number;
  ttlSeconds: number;
  execution: { id: string; scriptId: string } | undefined;
}

/** Adds the same command for many devices in one statement; `ids` are in the order of `devices`. */
export async function insertCommands(tx: Tx, rows: NewRows): Promise<void> {
  const { ids, devices, type, payload, createdBy, timeoutSeconds, ttlSeconds, execution } = rows;
  await tx.raw(
    `insert into commands (id, org_id, device_id, type, payload, created_by, timeout_seconds, expires_at, execution_id,
      script_id)
    select u.id, u.org_id, u.device_id, :type, :payload::jsonb, :createdBy::uuid, :timeoutSeconds::int,
      now() + make_interval(secs => :ttlSeconds::int), :executionId::uuid, :scriptId::uuid
    from unnest(:ids::uuid[], :orgIds::uuid[], :deviceIds::uuid[]) as u (id, org_id, device_id)`,
    {
      type,
      payload: JSON.stringify(payload),
      createdBy,
      timeoutSeconds,
      ttlSeconds,
      executionId: execution?.id ?? null,
      scriptId: execution?.scriptId ?? null,
      ids: [...ids],
      orgIds: devices.map(({ orgId }) => orgId),
      deviceIds: devices.map(({ id }) => id),
    },
  );
}

/**
 * Cancels a command that was not sent yet, and notes the request on one that the device may have.
 * @returns whether the command was still open
 */
export async function requestCancel(tx: Tx, id: string): Promise<boolean> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `update commands set cancel_requested_at = coalesce(cancel_requested_at, now()),
      status = case when status = 'queued' then 'cancelled' else status end,
      reason = case when status = 'queued' then 'not_sent' else reason end,
      finished_at = case when status = 'queued' then now() end
    where id = ? and status in ('queued', 'dispatched', 'accepted', 'running')`,
    [id],
  );
  return rowCount > 0;
}
