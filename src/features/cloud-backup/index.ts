import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { bounded, byRules, cascade } from '../../platform/db/retention/retention-rule.ts';
import { clientLimit } from '../../platform/http/address-limits.ts';
import { CREATED_BY_PEOPLE, defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { watchRegularly } from './care/care.job.ts';
import { cloudConfigRoutes } from './configs/config.routes.ts';
import { connectionRoutes, type ConnectionRouteParts } from './connections/connection.routes.ts';
import { cleanUpDaily } from './content/clean-up.job.ts';
import { cloudUsageRoutes } from './content/usage.routes.ts';
import { cloudItemRoutes } from './items/item.routes.ts';
import { fillSearchTexts } from './items/search-texts.job.ts';
import { cloudJobRoutes } from './jobs/job.routes.ts';
import { cloudRestoreRoutes } from './restores/restore.routes.ts';
import { cloudJobRetention } from './jobs/retention.ts';
import { scheduleRuns } from './work/schedule.job.ts';
import { addWorkJob } from './work/work.job.ts';

export { CLOUD_READINESS } from './care/stored-readiness.ts';
export { SEALED_CONNECTION_SECRET } from './connections/connection.model.ts';
export { consentCookie } from './connections/consent-cookie.ts';
export type { CloudParts } from './connections/open-graph.ts';
export { AccessTokens } from './graph/access-tokens.ts';
export { CLOUD_WORK } from './jobs/cloud-work.ts';

const CALLBACKS = { points: 150, seconds: 60 };

/** Of the public callback, for one network. */
export const consentLimit = (limits: RateLimits) => clientLimit(limits, 'c2c-callback', CALLBACKS);

export const feature = defineFeature({
  name: 'cloud-backup',
  routes: (
    parts: ConnectionRouteParts &
      Parameters<typeof cloudItemRoutes>[0] &
      Parameters<typeof cloudJobRoutes>[0],
  ) => [
    connectionRoutes(parts),
    cloudConfigRoutes,
    cloudJobRoutes(parts),
    cloudItemRoutes(parts),
    cloudRestoreRoutes(parts),
    cloudUsageRoutes,
  ],
  jobs(parts: Parameters<typeof addWorkJob>[0] & Parameters<typeof cleanUpDaily>[0]) {
    addWorkJob(parts);
    scheduleRuns(parts);
    cleanUpDaily(parts);
    watchRegularly(parts);
    fillSearchTexts(parts);
  },
  tables: [
    bounded('c2c_connections', CREATED_BY_PEOPLE),
    bounded('c2c_configs', CREATED_BY_PEOPLE),
    cascade('c2c_readiness', 'c2c_configs'),
    ...byRules(cloudJobRetention),
    cascade('c2c_outcomes', 'c2c_jobs'),
    cascade('c2c_restored_items', 'c2c_jobs'),
    cascade('c2c_cursors', 'c2c_configs'),
    cascade('c2c_folders', 'c2c_configs'),
    bounded('c2c_items', 'they are what the product is about, and retention removes them'),
    cascade('c2c_versions', 'c2c_items'),
    cascade('c2c_version_blobs', 'c2c_versions'),
    bounded('c2c_blobs', 'those that no version of an item has are removed daily'),
    bounded('c2c_packs', 'those that hold nothing any more are removed daily'),
    bounded('c2c_stores', ONE_PER_ORGANIZATION),
  ],
});
