import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { DEMO_RELEASES, setInMotion } from '../../../seeds/demo.ts';
import type { Config } from '../../config.ts';
import { createAuditTrail } from '../../features/audit/index.ts';
import { addRelease, openReleaseFiles, ReleaseKeys } from '../../features/releases/index.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Server } from '../../server.ts';

/**
 * Releases for simulated machines, published as an operator does it, and the rollout of one of them. They are candidates,
 * which are not promoted: a real machine is not offered them, and its installer does not find them.
 */

const PLATFORMS = [
  { os: 'windows', architecture: 'x64' },
  { os: 'linux', architecture: 'x64' },
  { os: 'macos', architecture: 'arm64' },
] as const;
const NOTES = 'A release of the demo: no program, but a text that simulated machines pretend to install.';

export async function publishDemoReleases(
  { database, secrets, auditSealer }: Pick<Server, 'database' | 'secrets' | 'auditSealer'>,
  config: Config,
  log: Logger,
): Promise<void> {
  const parts = {
    db: database.pool,
    log,
    audit: createAuditTrail(auditSealer),
    files: openReleaseFiles(config),
    keys: new ReleaseKeys(secrets),
    promotesItself: false,
  };
  const file = path.join(config.dataDir, 'demo-release.txt');
  for (const component of ['agent', 'watchdog'] as const) {
    const version = DEMO_RELEASES[component];
    await writeFile(file, `${component} ${version}: ${NOTES}\n`);
    for (const platform of PLATFORMS) {
      await addRelease(
        parts,
        { component, version, ...platform },
        { path: file, sha256: undefined, notes: NOTES },
      );
    }
  }
  await withSystem(database.pool, 'set the demo in motion', setInMotion);
}
