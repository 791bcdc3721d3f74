import path from 'node:path';
import { Guests } from '../../os/qemu/guests.ts';
import type { DurableHandlers } from '../../work/durable-handler.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { InstantBoots } from './instant-boots.ts';
import { asMachineError } from './machine-error.ts';
import { Accelerators, type MachineParts } from './machine-parts.ts';
import { migrate } from './migrate.ts';
import { restoreVm } from './restore-vm.ts';
import { saveMachine } from './save-machine.ts';
import { SnapshotMounts } from './snapshot-mounts.ts';

export interface MachineRestores {
  durable: DurableHandlers;
  live: LiveHandlers;
  close: () => void;
}

/** Removes what an earlier agent has left, and returns the commands that make machines of snapshots: on Linux only. */
export async function openMachineRestores(backup: BackupParts): Promise<MachineRestores> {
  if (process.platform !== 'linux') return { durable: {}, live: {}, close: () => {} };
  const parts: MachineParts = {
    ...backup,
    guests: new Guests(path.join(backup.dataDir, 'machines'), backup.warn),
    mounts: new SnapshotMounts({ ...backup, folder: path.join(backup.folder, 'mounts') }),
    accelerators: new Accelerators(),
  };
  const boots = new InstantBoots(parts);
  await boots.recover().catch((error: unknown) => {
    backup.warn(`What instant boots have left could not be cleaned up: ${String(error)}`);
  });
  const migration = migrate(parts, boots);
  const restore = restoreVm(parts);
  const save = saveMachine(parts, boots);
  return {
    durable: {
      'backup.vm-from-image': {
        ...restore,
        run: (payload, context) => withCode(restore.run(payload, context)),
      },
      'backup.vm-instant-boot': (payload, context) => withCode(boots.boot(payload, context)),
      'backup.vm-migrate': (payload, context) => withCode(migration.run(payload, context)),
      'backup.vm-save': {
        ...save,
        run: (payload, context) => withCode(save.run(payload, context)),
      },
      'backup.vm-discard': ({ restoreId }) =>
        withCode(boots.discard(restoreId).then((wasThere) => ({ wasThere }))),
    },
    live: { 'backup.vm-boots': async () => ({ boots: await boots.list() }) },
    close: () => boots.close(),
  };
}

async function withCode<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw asMachineError(error);
  }
}
