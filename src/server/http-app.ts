import { writeState } from '../platform/db/pool.ts';
import express, { type Express } from 'express';
import helmet from 'helmet';
import { API_INFO, VERSION } from '../api-info.ts';
import { createAgentAuthenticator } from '../features/agents/index.ts';
import { routeTable, type RouteParts } from '../features/index.ts';
import type { RedisConnection } from '../platform/cluster/redis-connection.ts';
import type { Database } from '../platform/db/database.ts';
import { pendingMigrations } from '../platform/db/migrations.ts';
import { assertSafeRole } from '../platform/db/roles.ts';
import { openApi } from '../platform/http/open-api.ts';
import { errorHandler, unknownRoute } from '../platform/http/error-body.ts';
import { createMac } from '../platform/secrets/tokens.ts';
import { mount, type Pipeline } from '../platform/http/mount.ts';
import type { RouteGroup } from '../platform/http/route.ts';
import {
  metricsRoute,
  neverStored,
  SELF_CHECK_PURPOSE,
  selfCheckRoute,
} from '../platform/http/operations.ts';
import type { RunningJobs } from '../platform/jobs/jobs.ts';
import { rawService } from '../platform/http/http-server.ts';
import { singlePage, type SinglePage } from '../platform/http/single-page.ts';
import { beginRequest } from '../platform/http/request-state.ts';
import { HUB_PATH } from '../protocol/index.ts';
import type { Infrastructure } from './infrastructure.ts';
import type { LiveSide } from './live-side.ts';
import type { Services } from './services.ts';

type OwnParts = 'version' | 'title' | 'openApi' | 'readinessChecks' | 'isDraining';

export interface AppOptions {
  /** The parts of routes that the application does not make itself. */
  routeParts: Omit<RouteParts, OwnParts>;
  isDraining: () => boolean;
  dashboard: SinglePage | undefined;
}

/** The Express application: the route table, the metrics, the backup store and the dashboard. */
export function createHttpApp(
  { config, database, expensive, jobs, log, metrics, proxyTrust, redis, secretKeys }: Infrastructure,
  { apiKeys, audit, authenticator, backupStore, reads, rightsNow }: Services,
  { credentials, hub }: LiveSide,
  { routeParts, isDraining, dashboard }: AppOptions,
): Express {
  const routes: RouteGroup[] = routeTable({
    ...routeParts,
    version: VERSION,
    title: API_INFO.title,
    openApi: () => openApi(routes, API_INFO),
    readinessChecks: readinessChecks(database, redis, jobs),
    isDraining,
  });
  const pipeline: Pipeline = {
    db: database.pool,
    authenticator: apiKeys.limited(authenticator),
    agents: createAgentAuthenticator(credentials, hub),
    audit,
    expensive,
    reads,
    watchRights: (caller, bearer, onLost) => {
      // The end of an access token, which clients renew, does not end what it has begun.
      const { validUntil: _end, ...lasting } = caller;
      return hub.watchRights({ caller: lasting, authenticate: () => rightsNow(lasting, bearer), onLost });
    },
  };

  const app = express();
  app.disable('etag');
  app.set('query parser', 'simple');
  app.use(beginRequest(log, metrics, proxyTrust));
  app.use(helmet({ contentSecurityPolicy: CONTENT_SECURITY_POLICY }));
  const ofTable = ownPaths(routes);
  app.use(['/api/v1', '/metrics', ...ofTable], neverStored);
  app.use(selfCheckRoute(createMac(secretKeys, SELF_CHECK_PURPOSE), proxyTrust));
  app.use(metricsRoute(metrics, config.metricsToken, proxyTrust));
  app.use(mount(routes, '/', pipeline));
  app.use('/api/v1', mount(routes, '/api/v1', pipeline));
  app.use('/backup-store', rawService('/backup-store', backupStore.service));
  if (dashboard !== undefined) app.use(singlePage(dashboard, [...NOT_THE_DASHBOARD, ...ofTable]));
  app.use(unknownRoute);
  app.use(errorHandler);
  return app;
}

/** The paths for programs have their own 404s, even if a browser asks. */
const NOT_THE_DASHBOARD = ['/api', HUB_PATH, '/metrics', '/backup-store'];

/** The first segments of what the table has beside the API, such as `/health` and `/docs`. */
const ownPaths = (groups: readonly RouteGroup[]): string[] => [
  ...new Set(
    groups
      .flatMap(({ routes }) => routes)
      .filter(({ bases }) => bases?.includes('/') === true)
      .map(({ path }) => path.replace(/(?<=.)\/.*$/, '')),
  ),
];

/**
 * One policy for all pages: everything comes from this server, the socket of the dashboard too. Styles may be inline,
 * which the reference page and the parts of the dashboard need; scripts may not.
 */
const CONTENT_SECURITY_POLICY = {
  useDefaults: false,
  directives: {
    'default-src': ["'self'"],
    'script-src': ["'self'"],
    'style-src': ["'self'", "'unsafe-inline'"],
    'img-src': ["'self'", 'data:'],
    'connect-src': ["'self'"],
    'object-src': ["'none'"],
    'base-uri': ["'none'"],
    'frame-ancestors': ["'none'"],
    'form-action': ["'self'"],
  },
};

function readinessChecks({ pool }: Database, redis: RedisConnection | undefined, jobs: RunningJobs) {
  return {
    database: () => writeState(pool),
    // Without Redis, agents stay connected and signed-in people can go on. A load balancer that removed a node because
    // of Redis would remove every node at once.
    redis: redis === undefined ? ('not_configured' as const) : { spare: () => redis.isUp() },
    migrations: async () => (await pendingMigrations(pool)).length === 0,
    isolation: async () => assertSafeRole(pool).then(() => true),
    // Requests are served without background jobs, so an operator sees it, and no load balancer acts on it.
    jobs: { spare: async () => jobs.isWorking() },
  };
}
