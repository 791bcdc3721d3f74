import { createHash, randomBytes } from 'node:crypto';
import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import { newId } from '../../platform/ids.ts';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import { sealContext, type Encryptor } from '../../platform/secrets/sealed.ts';
import { Organization } from '../organizations/index.ts';

/** A key that opens the repositories of configurations. Its material is in its versions. */
export class EncryptionKey extends BaseModel {
  static override tableName = 'backup_encryption_keys';
  static override relationMappings = (): RelationMappings => ({
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'backup_encryption_keys.org_id', to: 'organizations.id' },
    },
  });
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
  static override relationMappings = (): RelationMappings => ({
    key: belongsTo(EncryptionKey, 'backup_encryption_key_versions', 'key_id'),
  });
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

const KEY_BYTES = 32;

const contextOf = (versionId: string) =>
  sealContext(SEALED_KEY_MATERIAL.table, SEALED_KEY_MATERIAL.column, versionId);

/** A version with the given material (base64 of 32 bytes), or with new material. */
export function sealedVersion(
  encryptor: Encryptor,
  {
    material,
    ...version
  }: Pick<EncryptionKeyVersion, 'orgId' | 'keyId' | 'version'> & {
    material: string | undefined;
  },
) {
  const bytes = material === undefined ? randomBytes(KEY_BYTES) : Buffer.from(material, 'base64');
  const id = newId();
  return {
    id,
    ...version,
    sealedMaterial: encryptor.seal(bytes.toString('base64'), contextOf(id)),
    fingerprint: createHash('sha256').update(bytes).digest('hex'),
  };
}

/**
 * The password of the repositories of a key, which is the material in base64. It goes to the engine and into a recovery
 * kit, and nowhere else.
 */
export const passwordOf = (encryptor: Encryptor, { id, sealedMaterial }: EncryptionKeyVersion): string =>
  encryptor.open(sealedMaterial, contextOf(id)).text;

/** Whether a text is the base64 of a key, in its one form. */
export const isKeyMaterial = (text: string): boolean => {
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === KEY_BYTES && bytes.toString('base64') === text;
};
