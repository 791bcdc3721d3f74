import { BaseModel } from '../../../platform/db/base-model.ts';
import type { RecoveryMachine, RecoveryProgress, RecoveryResult, TargetConfig } from './token.schema.ts';

/** What lets a machine without an agent restore one snapshot onto its empty disks. */
export class RecoveryToken extends BaseModel {
  static override tableName = 'backup_recovery_tokens';
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
