import { SEALED_COLUMNS } from '../features/sealed-columns.ts';
import { resealColumn } from '../platform/secrets/reseal.ts';
import { startFailureText } from '../start-failure.ts';
import type { CommandIo } from './io.ts';
import { withInstallation } from './with-installation.ts';

/**
 * Seals every secret in the database with the newest key. Set the new SECRET_ENCRYPTION_KEY and the old one in
 * SECRET_ENCRYPTION_KEYS_OLD, restart the servers, run this, then drop the old one. Returns the exit code.
 */
export async function rotateSecrets(io: CommandIo): Promise<number> {
  try {
    await withInstallation(io, { migrates: true }, async ({ db, secrets }) => {
      for (const column of SEALED_COLUMNS) {
        const { seen, resealed } = await resealColumn(db, secrets, column);
        io.stdout.write(`${column.table}.${column.column}: ${seen} sealed, ${resealed} sealed again\n`);
      }
    });
    return 0;
  } catch (error) {
    io.stderr.write(`The secrets were not rotated. ${startFailureText(error)}\n`);
    return 1;
  }
}
