import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { CommandProgress, HypervisorKind, Machine, VmState } from '../../protocol/index.ts';
import { BackupSnapshot } from '../backup/index.ts';
import { DeviceModel } from '../devices/index.ts';
import type { RecoveryMachine, RecoveryProgress, RecoveryResult, TargetConfig } from './bare-metal.schema.ts';
import type { VmSpec } from './vm-restore.schema.ts';

/** As long as restores. */
const TOKEN_DAYS = 400;

export const bareMetalTokenRetention: readonly RetentionRule[] = [
  {
    table: 'backup_recovery_tokens',
    key: ['id'],
    days: TOKEN_DAYS,
    isOver: (days) => `old.created_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

/** A token with which a machine without an agent restores one snapshot onto its empty disks. */
export class BareMetalToken extends BaseModel {
  static override tableName = 'backup_recovery_tokens';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_recovery_tokens', 'device_id'),
    snapshot: belongsTo(BackupSnapshot, 'backup_recovery_tokens', 'snapshot_id'),
  });
  static override jsonAttributes = ['targetConfig', 'machine', 'progress', 'result'];
  declare orgId: string;
  declare deviceId: string;
  declare snapshotId: string;
  declare restoreType: 'full' | 'selective' | 'bare_metal';
  declare targetConfig: TargetConfig;
  declare tokenHash: string;
  declare sessionHash: string | null;
  declare status: 'active' | 'authenticated' | 'used' | 'revoked';
  declare expiresAt: Date;
  declare sessionExpiresAt: Date | null;
  declare authentications: number;
  declare credentialId: string | null;
  declare machine: RecoveryMachine | null;
  declare progress: RecoveryProgress | null;
  declare result: RecoveryResult | null;
  declare createdBy: string | null;
  declare authenticatedAt: Date | null;
  declare finishedAt: Date | null;
}

/** A guest as its host reports it. */
interface MachineFacts extends Omit<Machine, 'id' | 'name'> {
  /** The device has more guests than it lists. */
  listIsCut?: boolean | undefined;
}

/** A guest of a hypervisor, as its device last listed it. */
export class BackupMachine extends BaseModel {
  static override tableName = 'backup_machines';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_machines', 'device_id'),
  });
  static override jsonAttributes = ['facts'];
  declare orgId: string;
  declare deviceId: string;
  declare hypervisor: HypervisorKind;
  declare machineId: string;
  declare name: string;
  declare facts: MachineFacts;
  declare lastDiscoveredAt: Date;
}

/** As long as other restores. */
const DAYS = 400;

export const vmRestoreRetention: readonly RetentionRule[] = [
  {
    table: 'backup_vm_restores',
    key: ['id'],
    days: DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

/** A snapshot that becomes a virtual machine on a device. It follows its commands by a trigger of the database. */
export class VmRestore extends BaseModel {
  static override tableName = 'backup_vm_restores';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_vm_restores', 'device_id'),
    snapshot: belongsTo(BackupSnapshot, 'backup_vm_restores', 'snapshot_id'),
  });
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
