import {
  createEntryArchive,
  NameIndexCompactor,
  AuditPruner,
  SigningKeys,
} from '../../features/audit/index.ts';
import { startFailureText } from '../../start-failure.ts';
import type { CommandIo } from '../io.ts';
import { type Installation, withInstallation } from '../with-installation.ts';

/** Returns the exit code: 1 if the entries of some chain could not be removed. */
export async function pruneNow(io: CommandIo): Promise<number> {
  const { ran, removed, failed } = await withInstallation(io, { migrates: false }, (installation) =>
    prunerOf(installation).prune(),
  ).catch((error: unknown) => {
    throw new Error(`No entries could be removed. ${startFailureText(error)}`);
  });
  if (ran === 'off') throw new Error('Set AUDIT_ADMIN_DATABASE_URL: only its role can remove audit entries.');
  if (ran === 'elsewhere') throw new Error('A server is pruning the audit trail right now.');
  io.stdout.write(
    `${removed} entries removed${failed === 0 ? '' : `; ${failed} chains failed, see the log above`}\n`,
  );
  return failed === 0 ? 0 : 1;
}

function prunerOf({ db, auditAdminUrl: adminUrl, secrets, log, config }: Installation): AuditPruner {
  const keys = new SigningKeys(secrets);
  const { auditArchive } = config;
  const archive = auditArchive === undefined ? undefined : createEntryArchive(db, keys, auditArchive);
  return new AuditPruner({
    db,
    adminUrl,
    keys,
    archive,
    compactor: new NameIndexCompactor({ db, log }),
    log,
  });
}
