import { createHash, randomBytes } from 'node:crypto';
import { newId } from '../../../platform/ids.ts';
import { type Sealer, sealContext } from '../../../platform/secrets/sealed.ts';
import type { EncryptionKeyVersion } from './key.model.ts';
import { SEALED_KEY_MATERIAL } from './key.model.ts';

const KEY_BYTES = 32;

const contextOf = (versionId: string) =>
  sealContext(SEALED_KEY_MATERIAL.table, SEALED_KEY_MATERIAL.column, versionId);

/** A version with the given material (base64 of 32 bytes), or with new material. */
export function sealedVersion(
  sealer: Sealer,
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
    sealedMaterial: sealer.seal(bytes.toString('base64'), contextOf(id)),
    fingerprint: createHash('sha256').update(bytes).digest('hex'),
  };
}

/**
 * The password of the repositories of a key, which is the material in base64. It goes to the engine and into a recovery
 * kit, and nowhere else.
 */
export const passwordOf = (sealer: Sealer, { id, sealedMaterial }: EncryptionKeyVersion): string =>
  sealer.open(sealedMaterial, contextOf(id)).text;

/** Whether a text is the base64 of a key, in its one form. */
export const isKeyMaterial = (text: string): boolean => {
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === KEY_BYTES && bytes.toString('base64') === text;
};
