import { SigningKeys } from '../../features/audit/index.ts';
import { withInstallation } from '../with-installation.ts';

export async function rotateSigningKey(): Promise<void> {
  const keyId = await withInstallation({ migrates: false }, ({ db, secrets }) =>
    new SigningKeys(secrets).rotate(db),
  );
  process.stdout.write(`New batches will be signed with the key ${keyId}.\n`);
}
