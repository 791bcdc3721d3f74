import { SigningKeys } from '../../features/audit/index.ts';
import type { CommandIo } from '../io.ts';
import { withInstallation } from '../with-installation.ts';

export async function rotateSigningKey(io: CommandIo): Promise<void> {
  const keyId = await withInstallation(io, { migrates: false }, ({ db, secrets }) =>
    new SigningKeys(secrets).rotate(db),
  );
  io.stdout.write(`New batches will be signed with the key ${keyId}.\n`);
}
