import { createEntryArchive, NameIndexCompactor, AuditPruner, SigningKeys } from '../../features/audit/index.ts';
import { startFailureText } from '../../start-failure.ts';
import { type Installation, withInstallation } from '../with-installation.ts';

/** Answers the exit code: 1 where the entries of some audit trail could not be removed. */
export async function pruneNow(): Promise<number> {
  const { ran, removed, failed } = await withInstallation({ migrates: false }, (installation) =>
    cleanupOf(installation).remove(),
  ).catch((error: unknown) => {
    throw new Error(`Nothing could be removed. ${startFailureText(error)}`);
  });
  if (ran === 'off') throw new Error('Set AUDIT_ADMIN_DATABASE_URL: no other role can remove audit entries.');
  if (ran === 'elsewhere') throw new Error('A server is at it at this moment.');
  process.stdout.write(
    `${removed} entries removed${failed === 0 ? '' : `; ${failed} audit trails failed; the log above says why`}\n`,
  );
  return failed === 0 ? 0 : 1;
}

function cleanupOf({ db, auditAdminUrl: adminUrl, secrets, log, config }: Installation): AuditPruner {
  const keys = new SigningKeys(secrets);
  const { auditArchive } = config;
  const archive = auditArchive === undefined ? undefined : createEntryArchive(db, keys, auditArchive);
  return new AuditPruner({ db, adminUrl, keys, archive, sheets: new NameIndexCompactor({ db, log }), log });
}
