// The doors of these features load all of them, which takes longer than any of these commands.
import { createAuditTrail } from '../../features/audit/recording/audit-trail.ts';
import type { OperatorParts } from '../../features/releases/registry/operator.ts';
import { openReleaseFiles } from '../../features/releases/registry/release-files.ts';
import { ReleaseKeys } from '../../features/releases/registry/release-keys.ts';
import type { CommandIo } from '../io.ts';
import { withInstallation } from '../with-installation.ts';

/** Does with the releases of this installation what an operator asks for. */
export function withReleases<T>(io: CommandIo, work: (parts: OperatorParts) => Promise<T>): Promise<T> {
  return withInstallation(io, { migrates: false }, ({ db, log, secrets, config }) =>
    work({
      db,
      log,
      // The entry is sealed by a running server, or by the next one that starts.
      audit: createAuditTrail({ wake() {} }),
      files: openReleaseFiles(config),
      keys: new ReleaseKeys(secrets),
      promotesItself: config.autoPromotesReleases,
    }),
  );
}
