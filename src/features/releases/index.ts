import { bounded, byRules } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { type InstallerParts, installerRoutes } from './installers/installer.routes.ts';
import { type ReleaseRouteParts, releaseRoutes } from './registry/release.routes.ts';
import { type ConductorParts, conductRolloutsRegularly } from './rollout-control/conductor.job.ts';
import { type RolloutRouteParts, rolloutRoutes } from './rollout-control/rollout.routes.ts';
import { type SyncJobParts, syncReleasesHourly } from './sync/sync.job.ts';
import { type SyncRouteParts, syncRoutes } from './sync/sync.routes.ts';
import { targetRoutes } from './targets/target.routes.ts';
import { UPGRADES_CHANNEL } from './upgrades/board/board-notice.ts';
import { readBoard } from './upgrades/board/board-reader.ts';
import { UpgradeBoard } from './upgrades/board/upgrade-board.ts';
import { UpgradeEnds } from './upgrades/upgrade-ends.ts';
import { createUpgradeHistory } from './upgrades/upgrade-history.ts';
import { type UpgradeRouteParts, upgradeRoutes } from './upgrades/upgrade.routes.ts';
import { upgradeRetention } from './upgrades/retention.ts';

export {
  addRelease,
  listAllReleases,
} from './registry/operator.ts';
export { openReleaseFiles } from './registry/release-files.ts';
export { ReleaseKeys, SEALED_RELEASE_KEY } from './registry/release-keys.ts';
export { releaseLimits } from './registry/release-limits.ts';
export { removeIfUnused } from './registry/unused-file.ts';
export { assertRegisteredPins } from './targets/registered-pins.ts';
export { ReleaseTrust } from './targets/release-trust.ts';
export { AssetDownloads } from './sync/asset-download.ts';
export { GithubApi } from './sync/github-api.ts';
export { ReleaseSync } from './sync/release-sync.ts';

export { createUpgradeHistory, readBoard, UpgradeBoard, UPGRADES_CHANNEL };

export const feature = defineFeature({
  name: 'releases',
  routes: (
    parts: ReleaseRouteParts & SyncRouteParts & RolloutRouteParts & InstallerParts & UpgradeRouteParts,
  ) => [
    releaseRoutes(parts),
    syncRoutes(parts),
    targetRoutes,
    upgradeRoutes(parts),
    rolloutRoutes(parts),
    installerRoutes(parts),
  ],
  workers: (parts: ConstructorParameters<typeof UpgradeEnds>[0]) => ({
    'ends of upgrades': new UpgradeEnds(parts),
  }),
  jobs: (parts: SyncJobParts & ConductorParts) => {
    syncReleasesHourly(parts);
    conductRolloutsRegularly(parts);
  },
  tables: [
    bounded('agent_releases', 'an operator publishes them one by one, and removes those that are not needed'),
    bounded('release_syncs', 'one row for each version that the project publishes'),
    bounded('release_signing_keys', 'an operator creates them by hand'),
    ...byRules(upgradeRetention),
    bounded('agent_rollouts', 'an operator starts them one by one'),
    bounded('agent_rollout_halts', 'each waits for an operator, who resumes or aborts the rollout'),
  ],
});
