import { newId } from '../../../src/platform/ids.ts';
import type { Tx } from '../../../src/platform/db/transaction.ts';

interface RestoreRow {
  orgId: string;
  deviceId: string;
  /** Columns of `work` that are not as of a restore that its device was given. */
  work?: Record<string, unknown>;
  /** Columns of `backup_restore_facts`. */
  facts?: Record<string, unknown>;
}

/** Adds a restore without the command that its device has. Returns its id. */
export async function insertRestore(
  tx: Tx,
  { orgId, deviceId, work = {}, facts = {} }: RestoreRow,
): Promise<string> {
  const id = newId();
  const { partner_id: partnerId } = await tx('organizations').where({ id: orgId }).first('partner_id');
  await tx('work').insert({
    id,
    kind: 'restore',
    partner_id: partnerId,
    org_id: orgId,
    device_id: deviceId,
    input: '{}',
    step: 'record',
    stage: work['finished_at'] === undefined ? 'device' : 'ended',
    command_id: newId(),
    deadline_at: new Date(Date.now() + 86_400_000),
    ...work,
  });
  await tx('backup_restore_facts').insert({ id, org_id: orgId, overwrite: 'never', ...facts });
  return id;
}
