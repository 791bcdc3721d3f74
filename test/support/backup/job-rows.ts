import { newId } from '../../../src/platform/ids.ts';
import type { Tx } from '../../../src/platform/db/transaction.ts';

interface JobRow {
  orgId: string;
  deviceId: string;
  configId: string | null;
  /** Columns of `work` that are not as of a job that has just been asked for. */
  work?: Record<string, unknown>;
  /** Columns of `backup_job_facts`. */
  facts?: Record<string, unknown>;
}

/** Adds a backup job without a request. Returns its id. */
export async function insertJob(
  tx: Tx,
  { orgId, deviceId, configId, work = {}, facts = {} }: JobRow,
): Promise<string> {
  const id = newId();
  const { partner_id: partnerId } = await tx('organizations').where({ id: orgId }).first('partner_id');
  await tx('work').insert({
    id,
    kind: 'backup',
    partner_id: partnerId,
    org_id: orgId,
    device_id: deviceId,
    input: '{}',
    step: 'begin',
    stage: work['finished_at'] === undefined ? 'ready' : 'ended',
    deadline_at: new Date(Date.now() + 86_400_000),
    ...work,
  });
  await tx('backup_job_facts').insert({
    id,
    org_id: orgId,
    device_id: deviceId,
    config_id: configId,
    type: 'manual',
    ...facts,
  });
  return id;
}
