import { ReleaseFiles, ReleaseKeys, releaseLimits, removeIfUnused } from '../features/releases/index.ts';
import type { Infrastructure } from './infrastructure.ts';

/** The files of agent releases, the keys that sign them, and the limits of their public routes. */
export async function createAgentReleases({ config, database, log, rateLimits, secrets }: Infrastructure) {
  const keys = new ReleaseKeys(secrets);
  await keys.ensure(database.pool);
  const files = new ReleaseFiles(config.dataDir);
  await files.removeAbandoned();
  return {
    releases: {
      files,
      keys,
      promotesItself: config.autoPromotesReleases,
      forgetFile: (sha256: string) => removeIfUnused({ db: database.pool, files, log }, sha256),
    },
    releaseLimits: releaseLimits(rateLimits),
  };
}
