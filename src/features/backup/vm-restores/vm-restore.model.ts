import { BaseModel } from '../../../platform/db/base-model.ts';
import type { CommandProgress, HypervisorKind, VmState } from '../../../protocol/index.ts';
import type { VmSpec } from './vm-restore.schema.ts';

/** A snapshot that becomes a virtual machine on a device. It follows its commands by a trigger of the database. */
export class VmRestore extends BaseModel {
  static override tableName = 'backup_vm_restores';
  static override jsonAttributes = ['spec', 'progress', 'result'];
  declare orgId: string;
  declare deviceId: string;
  declare snapshotId: string | null;
  declare kind: 'as_vm' | 'instant_boot';
  declare hypervisor: HypervisorKind;
  declare vmName: string;
  declare spec: VmSpec;
  declare status: 'pending' | 'working' | 'active' | 'completed' | 'discarded' | 'failed' | 'cancelled';
  declare operation: 'restore' | 'boot' | 'migrate' | 'discard';
  declare isOperating: boolean;
  declare commandId: string;
  declare credentialId: string | null;
  declare vmState: VmState | null;
  declare stateAt: Date | null;
  declare holdsSnapshot: boolean;
  declare expiresAt: Date;
  declare progress: Omit<CommandProgress, 'id' | 'seq'> | null;
  /** As the device has reported it. */
  declare result: unknown;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
}
