import type { Tx } from '../../../platform/db/transaction.ts';
import type { VmRestore } from './vm-restore.model.ts';
import { type VM_RESTORE_STATUSES, VmFacts } from './vm-restore.schema.ts';

/** A restore as people see it. */

export async function shownAll(tx: Tx, restores: readonly VmRestore[]) {
  const ids = [...new Set(restores.map(({ deviceId }) => deviceId))];
  const hosts = await tx('devices')
    .whereIn('id', ids)
    .select<{ id: string; hostname: string }[]>('id', 'hostname');
  const names = new Map(hosts.map(({ id, hostname }) => [id, hostname]));
  return restores.map((restore) => shown(restore, names.get(restore.deviceId) ?? ''));
}

function shown(restore: VmRestore, hostDeviceName: string) {
  const { spec, errorCode, errorMessage, finishedAt, result, progress, ...rest } = restore;
  const facts = VmFacts.safeParse(result ?? {}).data ?? {};
  return {
    ...rest,
    status: statusOf(restore),
    hostDeviceId: rest.deviceId,
    hostDeviceName,
    vmSpecs: spec,
    network: spec.network,
    syncProgress: syncProgress(restore),
    progress,
    console: facts.console ?? null,
    forwards: facts.forwards ?? [],
    folder: facts.folder ?? null,
    accelerator: facts.accelerator ?? null,
    warnings: facts.warnings ?? [],
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' },
    completedAt: finishedAt,
  };
}

function statusOf({
  status,
  operation,
  isOperating,
  vmState,
  kind,
}: VmRestore): (typeof VM_RESTORE_STATUSES)[number] {
  if (status === 'working') return kind === 'as_vm' ? 'restoring' : 'booting';
  if (status !== 'active') return status;
  if (isOperating && operation === 'migrate') return 'migrating';
  if (isOperating && operation === 'discard') return 'discarding';
  if (isOperating && operation === 'boot') return 'booting';
  return vmState ?? 'unknown';
}

function syncProgress({ status, operation, isOperating, progress }: VmRestore): number | null {
  if (status === 'completed') return 100;
  return isOperating && operation !== 'boot' ? (progress?.percent ?? null) : null;
}
