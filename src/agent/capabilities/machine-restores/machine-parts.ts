import { probeAccelerator } from '../../os/qemu/acceleration.ts';
import type { Accelerator } from '../../os/qemu/guest-command.ts';
import type { Guests } from '../../os/qemu/guests.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import type { SnapshotMounts } from './snapshot-mounts.ts';

/** What restoring machines shares. */
export interface MachineParts extends BackupParts {
  guests: Guests;
  mounts: SnapshotMounts;
  accelerators: Accelerators;
}

/** Whether a qemu accelerates machines, which takes a moment to find out, and does not change while the agent runs. */
export class Accelerators {
  readonly #known = new Map<string, Promise<Accelerator>>();

  of(qemu: string): Promise<Accelerator> {
    const known = this.#known.get(qemu) ?? probeAccelerator(qemu);
    this.#known.set(qemu, known);
    return known;
  }
}
