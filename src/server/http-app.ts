import express, { type Express } from 'express';
import helmet from 'helmet';
import { API_INFO, VERSION } from '../api-info.ts';
import { createAgentAuthenticator } from '../features/agents/index.ts';
import { routeTable } from '../features/index.ts';
import type { RouteParts } from '../features/index.ts';
import { INSTALLER_PATHS } from '../features/releases/index.ts';
import type { RedisConnection } from '../platform/cluster/redis.ts';
import type { Database } from '../platform/db/database.ts';
import { pendingMigrations } from '../platform/db/migrations/migrations.ts';
import { assertSafeRole } from '../platform/db/roles.ts';
import { docsRoutes } from '../platform/http/docs/docs-pages.ts';
import { openApi } from '../platform/http/docs/open-api.ts';
import { errorHandler, unknownRoute } from '../platform/http/error-body.ts';
import { createMac } from '../platform/secrets/mac.ts';
import { mount } from '../platform/http/mount/mount.ts';
import {
  healthRoutes,
  metricsRoute,
  neverStored,
  SELF_CHECK_PURPOSE,
  selfCheckRoute,
} from '../platform/http/operations.ts';
import { rawService } from '../platform/http/server/raw-service.ts';
import { singlePage, type SinglePage } from '../platform/http/single-page/single-page.ts';
import { beginRequest } from '../platform/http/request-state.ts';
import { HUB_PATH, SOCKET_REFERENCE } from '../protocol/index.ts';
import type { Infrastructure } from './infrastructure.ts';
import type { LiveSide } from './live-side.ts';
import type { Services } from './services.ts';

export interface AppOptions {
  routeParts: RouteParts;
  isDraining: () => boolean;
  dashboard: SinglePage | undefined;
}

/** The Express application: the API below /api/v1, its documents, health, metrics and the dashboard. */
export function createHttpApp(
  { config, database, expensive, log, metrics, proxyTrust, redis, secretKeys }: Infrastructure,
  { apiKeys, audit, authenticator, backupStore, rightsNow }: Services,
  { credentials, hub }: LiveSide,
  { routeParts, isDraining, dashboard }: AppOptions,
): Express {
  const routes = routeTable(routeParts);
  const api = mount(routes, {
    db: database.pool,
    authenticator: apiKeys.limited(authenticator),
    agents: createAgentAuthenticator(credentials, hub),
    audit,
    expensive,
    watchRights: (caller, bearer, onLost) => {
      // The end of an access token, which clients renew, does not end what it has begun.
      const { validUntil: _end, ...lasting } = caller;
      return hub.watchRights({ caller: lasting, authenticate: () => rightsNow(lasting, bearer), onLost });
    },
  });
  // Made when somebody asks for it: that takes longer than the rest of the application.
  let document: ReturnType<typeof openApi> | undefined;
  const health = healthRoutes(VERSION, readinessChecks(database, redis), isDraining);

  const app = express();
  app.disable('etag');
  app.set('query parser', 'simple');
  app.use(beginRequest(log, metrics, proxyTrust));
  app.use(helmet({ contentSecurityPolicy: CONTENT_SECURITY_POLICY }));
  app.use(['/api/v1', '/health', '/metrics'], neverStored);
  app.use(health);
  app.use(selfCheckRoute(createMac(secretKeys, SELF_CHECK_PURPOSE), proxyTrust));
  app.use(metricsRoute(metrics, config.metricsToken, proxyTrust));
  app.use(docsRoutes({ specUrl: '/api/v1/openapi.json', title: API_INFO.title, sockets: SOCKET_REFERENCE }));
  app.use('/api/v1', health);
  app.get('/api/v1/openapi.json', (_request, response) => {
    document ??= openApi(routes, API_INFO);
    response.json(document);
  });
  app.use('/api/v1', api);
  app.use('/backup-store', rawService('/backup-store', backupStore.service));
  // The one line that installs an agent is typed by people.
  app.get([...INSTALLER_PATHS], neverStored, api);
  if (dashboard !== undefined) app.use(singlePage(dashboard, NOT_THE_DASHBOARD));
  app.use(unknownRoute);
  app.use(errorHandler);
  return app;
}

/** The paths for programs have their own 404s, also where a browser asks. */
const NOT_THE_DASHBOARD = [
  '/api',
  HUB_PATH,
  '/docs',
  '/health',
  '/metrics',
  '/backup-store',
  ...INSTALLER_PATHS,
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

function readinessChecks({ pool }: Database, redis: RedisConnection | undefined) {
  return {
    database: async () => (await pool.raw('select 1 as up')).rows.length === 1,
    // Without Redis, agents stay connected and signed-in people can go on. A load balancer that removed a node because
    // of Redis would remove every node at once.
    redis: redis === undefined ? ('not_configured' as const) : { spare: () => redis.isUp() },
    migrations: async () => (await pendingMigrations(pool)).length === 0,
    isolation: async () => assertSafeRole(pool).then(() => true),
  };
}
