import type { Tx } from '../../platform/db/transaction.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { DeviceTarget } from '../device-targets/index.ts';
import type { Owner } from '../owners/index.ts';
import { type Script, withDefaults } from '../scripts/index.ts';
import { enqueueStart } from './script-run.job.ts';
import { RUN_DEVICES_MAX } from './script-run.schema.ts';
import { devicesOf, notesOfRun, pinned, storeRun } from './start-run.ts';

/**
 * Starts the run of a schedule, in a transaction across tenants. Whether the person of the schedule may do so, the caller
 * has checked. A second run for the same time of the schedule is refused by the database.
 * @returns what the audit trail is told for each organization, or why there is no run
 */
export async function startRunOfSchedule(
  tx: Tx,
  jobs: Jobs,
  request: {
    script: Script;
    owner: Owner;
    target: DeviceTarget;
    parameters: Record<string, string>;
    secrets: Record<string, string>;
    createdBy: string | null;
    scheduleId: string;
    slotAt: Date;
    expiresAt: Date;
  },
): Promise<{ notes: ReturnType<typeof notesOfRun> } | 'no_devices' | 'too_many_devices'> {
  const { script, owner, target, parameters, secrets, createdBy, scheduleId, slotAt, expiresAt } = request;
  const devices = await devicesOf(tx, owner, target);
  if (devices.length === 0) return 'no_devices';
  if (devices.length > RUN_DEVICES_MAX) return 'too_many_devices';
  const run = await storeRun(
    tx,
    {
      script: await pinned(tx, script),
      partnerId: owner.partnerId,
      target,
      // What the script has come to require since the schedule was saved is no reason to leave a run out.
      parameters: withDefaults(script.parameters, parameters),
      secretNames: Object.keys(secrets),
      createdBy,
      expiresAt,
      schedule: { id: scheduleId, slotAt },
    },
    devices,
  );
  await enqueueStart(jobs, tx, { runId: run.id, partnerId: owner.partnerId, secrets });
  return { notes: notesOfRun(run, devices) };
}
