import { BaseModel } from '../../../platform/db/base-model.ts';
import type { VerificationDetails } from './verification.schema.ts';

/** One attempt to prove that backups can be restored. */
export class BackupVerification extends BaseModel {
  static override tableName = 'backup_verifications';
  static override jsonAttributes = ['details'];
  declare orgId: string;
  declare deviceId: string;
  declare repositoryId: string | null;
  declare configId: string | null;
  declare snapshotId: string | null;
  declare verificationType: 'integrity' | 'test_restore';
  declare status: 'pending' | 'running' | 'passed' | 'failed' | 'partial';
  declare commandId: string | null;
  declare credentialId: string | null;
  declare filesVerified: number;
  declare filesFailed: number;
  declare sizeBytes: string;
  declare restoreSeconds: number | null;
  declare details: VerificationDetails;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
}
