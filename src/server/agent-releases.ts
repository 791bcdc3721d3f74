import {
  AssetDownloads,
  GithubApi,
  openReleaseFiles,
  ReleaseKeys,
  releaseLimits,
  ReleaseSync,
  ReleaseTrust,
  removeIfUnused,
} from '../features/releases/index.ts';
import type { Tx } from '../platform/db/transaction.ts';
import type { Infrastructure } from './infrastructure.ts';

/** The files of agent releases, the keys that sign them, and the limits of their public routes. */
export async function createAgentReleases(infrastructure: Infrastructure) {
  const { config, database, log, rateLimits, secrets } = infrastructure;
  const keys = new ReleaseKeys(secrets);
  await keys.ensure(database.pool);
  const files = openReleaseFiles(config);
  await files.removeAbandoned();
  const registry = { files, keys, promotesItself: config.autoPromotesReleases };
  return {
    releases: {
      ...registry,
      forgetFile: (sha256: string) => removeIfUnused({ db: database.pool, files, log }, sha256),
    },
    releaseSync: new ReleaseSync({ ...registry, db: database.pool, github: githubOf(infrastructure) }),
    syncsReleases: config.github !== undefined && config.binarySource === 'github',
    releaseLimits: releaseLimits(rateLimits),
    releaseTrust: new ReleaseTrust(database.hubPool, keys),
    releaseKeys: (tx: Tx) => keys.published(tx),
  };
}

function githubOf({ config, githubFetch, githubFiles }: Infrastructure) {
  if (config.github === undefined) return undefined;
  const { url, token, fileHosts } = config.github;
  return {
    api: new GithubApi(githubFetch, { url, token }),
    downloads: new AssetDownloads({ outbound: githubFiles, apiUrl: url, token, fileHosts }),
    source: config.binarySource,
  };
}
