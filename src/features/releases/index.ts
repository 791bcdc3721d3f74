import { bounded } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { type InstallerParts, installerRoutes } from './installer.routes.ts';
import { type SyncJobParts, syncReleasesHourly } from './release-sync.work.ts';
import { type ReleaseRouteParts, releaseRoutes, type SyncRouteParts, syncRoutes } from './release.routes.ts';

export { githubReleases } from './github-releases.ts';
export { openReleaseFiles } from './release-files.ts';
export { ReleaseKeys, SEALED_RELEASE_KEY } from './release-keys.ts';
export { compareVersions, Version } from './release-name.ts';
export { ReleaseSync } from './release-sync.ts';
export { AgentRelease } from './release.model.ts';
export { lockReleases } from './release.queries.ts';
export { releaseLimits } from './release.routes.ts';
export { removeIfUnused } from './release.service.ts';

export const feature = defineFeature({
  name: 'releases',
  routes: (parts: ReleaseRouteParts & SyncRouteParts & InstallerParts) => [
    releaseRoutes(parts),
    syncRoutes(parts),
    installerRoutes(parts),
  ],
  jobs: (parts: SyncJobParts) => syncReleasesHourly(parts),
  tables: [
    bounded('agent_releases', 'an operator publishes them one by one, and removes those that are not needed'),
    bounded('release_syncs', 'one row for each version that the project publishes'),
    bounded('release_signing_keys', 'an operator creates them by hand'),
  ],
});
