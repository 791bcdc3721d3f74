import { BaseModel } from '../../../platform/db/base-model.ts';
import type { SealedColumn } from '../../../platform/secrets/reseal.ts';

/** A key that opens the repositories of configurations. Its material is in its versions. */
export class EncryptionKey extends BaseModel {
  static override tableName = 'backup_encryption_keys';
  declare orgId: string;
  declare name: string;
  declare status: 'active' | 'rotating';
  /** The newest one. */
  declare version: number;
  declare createdBy: string | null;
  declare rotatedAt: Date | null;
}

/** Earlier versions stay: a repository as of an earlier time opens with the key of that time. */
export class EncryptionKeyVersion extends BaseModel {
  static override tableName = 'backup_encryption_key_versions';
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare keyId: string;
  declare version: number;
  declare sealedMaterial: string;
  /** SHA-256 of the material, hexadecimal. */
  declare fingerprint: string;
}

/** For `npm run rotate-secrets`. */
export const SEALED_KEY_MATERIAL: SealedColumn = {
  table: 'backup_encryption_key_versions',
  column: 'sealed_material',
  id: 'id',
};
