import { createAuditTrail } from '../../features/audit/operator.ts';
import { type OperatorParts, openReleaseFiles, ReleaseKeys } from '../../features/releases/operator.ts';
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
