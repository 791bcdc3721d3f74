import { bounded } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { type ReleaseRouteParts, releaseRoutes } from './registry/release.routes.ts';
import { targetRoutes } from './targets/target.routes.ts';

export { addRelease, listAllReleases, type OperatorParts, promoteVersion } from './registry/operator.ts';
export { Architecture, Component, OperatingSystem } from './registry/platform.ts';
export type { Promotion } from './registry/promotion.ts';
export type { PromoteRequest } from './registry/release.schema.ts';
export { ReleaseFiles } from './registry/release-files.ts';
export { ReleaseKeys, SEALED_RELEASE_KEY } from './registry/release-keys.ts';
export { releaseLimits } from './registry/release-limits.ts';
export { Version } from './registry/version.ts';
export { removeIfUnused } from './registry/unused-file.ts';

export const feature = defineFeature({
  name: 'releases',
  routes: (parts: ReleaseRouteParts) => [releaseRoutes(parts), targetRoutes],
  tables: [
    bounded('agent_releases', 'an operator publishes them one by one, and removes those that are not needed'),
    bounded('release_signing_keys', 'an operator creates them by hand'),
  ],
});
