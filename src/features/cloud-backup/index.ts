import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { bounded, byRules, cascade } from '../../platform/db/retention-rule.ts';
import { clientLimit } from '../../platform/http/client-address.ts';
import { CREATED_BY_PEOPLE, defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { watchRegularly } from './readiness.ts';
import { cloudConfigRoutes } from './config.routes.ts';
import { connectionRoutes, type ConnectionRouteParts } from './connection.routes.ts';
import { cleanUpDaily, fillSearchTexts } from './content-store.ts';
import { cloudUsageRoutes, cloudItemRoutes } from './item.routes.ts';
import { cloudJobRoutes, cloudRestoreRoutes } from './job.routes.ts';
import { consentRetention } from './cloud-backup.model.ts';
import { scheduleRuns, addCloudWork } from './job.work.ts';

export { cloudBackupReport } from './cloud-report.queries.ts';
export { CLOUD_READINESS, CLOUD_WORK } from './cloud-backup.queries.ts';
export { SEALED_CONNECTION_SECRET } from './cloud-backup.model.ts';
export { consentCookie } from './consent.service.ts';
export type { CloudParts } from './connection.service.ts';
export { AccessTokens } from './graph-client.ts';

const CALLBACKS = { points: 150, seconds: 60 };

/** The limit of the public callback, for one network. */
export const consentLimit = (limits: RateLimits) => clientLimit(limits, 'c2c-callback', CALLBACKS);

export const feature = defineFeature({
  name: 'cloud-backup',
  routes: (
    parts: ConnectionRouteParts &
      Parameters<typeof cloudItemRoutes>[0] &
      Parameters<typeof cloudJobRoutes>[0],
  ) => [
    connectionRoutes(parts),
    cloudConfigRoutes(parts),
    cloudJobRoutes(parts),
    cloudItemRoutes(parts),
    cloudRestoreRoutes(parts),
    cloudUsageRoutes,
  ],
  jobs(
    parts: Parameters<typeof addCloudWork>[0] &
      Parameters<typeof scheduleRuns>[0] &
      Parameters<typeof cleanUpDaily>[0],
  ) {
    addCloudWork(parts);
    scheduleRuns(parts);
    cleanUpDaily(parts);
    watchRegularly(parts);
    fillSearchTexts(parts);
  },
  tables: [
    bounded('c2c_connections', CREATED_BY_PEOPLE),
    bounded('c2c_configs', CREATED_BY_PEOPLE),
    cascade('c2c_readiness', 'c2c_configs'),
    ...byRules(consentRetention),
    cascade('c2c_job_facts', 'work'),
    cascade('c2c_outcomes', 'c2c_job_facts'),
    cascade('c2c_restored_items', 'c2c_job_facts'),
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
