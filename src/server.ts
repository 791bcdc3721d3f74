import { hostname } from 'node:os';
import express from 'express';
import helmet from 'helmet';
import type { Config } from './config.ts';
import { AlertRounds, type RoundTiming } from './features/alerts/index.ts';
import {
  AuditSealer,
  createAuditTrail,
  createEntryArchive,
  NameIndexCompactor,
  AuditPruner,
  SigningKeys,
} from './features/audit/index.ts';
import { createApiKeyCallers, revokeKeysOf } from './features/api-keys/index.ts';
import {
  authService,
  createAccessTokens,
  createAuthenticator,
  createSecondFactor,
  SignInTrail,
  signInLimits,
} from './features/auth/index.ts';
import { createAgentAuthenticator } from './features/agents/index.ts';
import { createCommandLedger } from './features/commands/index.ts';
import { CachedAgentCredentials, createDeviceStore, MaintenanceEnd } from './features/devices/index.ts';
import { enrollLimits } from './features/enrollment/index.ts';
import { LogReadRecorder } from './features/event-logs/index.ts';
import { DynamicGroupSync } from './features/groups/index.ts';
import { routeTable } from './features/index.ts';
import { createFleetStore } from './features/live-filters/index.ts';
import { createRegistration } from './features/registration/index.ts';
import { RETENTION_RULES } from './features/table-life.ts';
import { type AccountEnding, createFirstAdmin, invitationLimits } from './features/users/index.ts';
import {
  ACCESS_CHANNEL,
  type Cluster,
  createHub,
  type Hub,
  type HubOptions,
  joinCluster,
} from './hub/index.ts';
import { createRateLimits } from './platform/cluster/rate-limits.ts';
import { openRedis, type RedisConnection } from './platform/cluster/redis.ts';
import { ClosingSteps } from './platform/closing-steps.ts';
import { hubPoolSize, openDatabase, type Database } from './platform/db/database.ts';
import { DatabaseNotifications } from './platform/db/notifications.ts';
import { pendingMigrations } from './platform/db/migrations.ts';
import { poolState } from './platform/db/pool.ts';
import { assertSafeRole } from './platform/db/roles.ts';
import { pruneRowsDaily } from './platform/db/row-pruner.ts';
import { withSystem } from './platform/db/transaction.ts';
import { errorHandler, unknownRoute } from './platform/http/error-body.ts';
import { addressList, type ProxyTrust } from './platform/http/client-address.ts';
import { docsRoutes } from './platform/http/docs.ts';
import { EndingConnections } from './platform/http/ending-connections.ts';
import { createHttpServer, listen } from './platform/http/http-server.ts';
import { mount } from './platform/http/mount.ts';
import { openApi } from './platform/http/open-api.ts';
import { healthRoutes, metricsRoute, neverStored } from './platform/http/operations.ts';
import { beginRequest } from './platform/http/request-state.ts';
import { newId } from './platform/ids.ts';
import { ExpensiveWork } from './platform/expensive-work.ts';
import { createJobs } from './platform/jobs/jobs.ts';
import type { Logger } from './platform/logger.ts';
import { createMailer } from './platform/mail/mailer.ts';
import { createMetrics, type Metrics } from './platform/metrics.ts';
import { createSealer, type SecretKeys } from './platform/secrets/sealed.ts';
import { API_INFO, VERSION } from './api-info.ts';
import { SOCKET_REFERENCE } from './protocol/index.ts';

export interface ServerOptions {
  config: Config;
  /** Where the database is: of the configuration, or the embedded one that `main` has started. */
  database: { ownerUrl: string | undefined; appUrl: string; auditAdminUrl?: string | undefined };
  jwtSecret: string;
  secretKeys: SecretKeys;
  log: Logger;
  /** For tests, which have no patience. */
  hub?: Pick<
    HubOptions,
    | 'graceMs'
    | 'dashboardRecheckMs'
    | 'dashboardPatienceMs'
    | 'dashboardLimits'
    | 'admission'
    | 'liveFilters'
    | 'overlookedWorkMs'
  >;
  alerts?: Partial<RoundTiming>;
}

export interface Server {
  /** http://127.0.0.1:3000, with the port that was really taken. */
  url: string;
  hub: Hub;
  database: Database;
  auditSealer: AuditSealer;
  /** Ordered end: no newcomers, agents sent away, requests finished, presence and audit written, pools closed. */
  close(): Promise<void>;
}

/** Builds every part by hand, in order, and listens. What is started is ended again when a later step fails. */
export async function startServer({
  config,
  database: urls,
  jwtSecret,
  secretKeys,
  log,
  hub: hubTiming,
  alerts: alertTiming,
}: ServerOptions): Promise<Server> {
  const nodeId = config.nodeId ?? `${hostname()}-${newId().slice(-8)}`;
  const metrics = createMetrics();
  const database = await openDatabase({
    ...urls,
    autoMigrate: config.autoMigrate,
    poolSize: config.databasePoolSize,
    log,
  });
  const closing = new ClosingSteps(log);
  closing.add('database', () => database.close());
  const expensive = new ExpensiveWork({ poolSize: config.databasePoolSize });
  const expensiveLive = new ExpensiveWork({ poolSize: hubPoolSize(config.databasePoolSize) });
  let hub: Hub | undefined;
  let cluster: Cluster | undefined;
  let groups: DynamicGroupSync | undefined;
  try {
    const mailer = createMailer({ ...config.mail, dataDir: config.dataDir, log });
    closing.add('mailer', () => mailer.close());
    const redis = config.redisUrl === undefined ? undefined : await openRedis(config.redisUrl, log);
    closing.add('redis', () => redis?.close());
    const httpServer = createHttpServer();
    const connections = new EndingConnections(httpServer);
    if (config.firstAdmin !== undefined) await makeFirstAdmin(database, config.firstAdmin, log);

    const accessTokens = createAccessTokens(jwtSecret);
    const rateLimits = createRateLimits(redis);
    const apiKeys = createApiKeyCallers({ db: database.pool, log, limits: rateLimits });
    closing.add('use of API keys', () => apiKeys.close());
    const authenticator = createAuthenticator({ db: database.pool, accessTokens, apiKeys, log });
    const limits = signInLimits(rateLimits);
    const secrets = createSealer(secretKeys);
    const jobs = createJobs({ db: database.queuePool, sealer: secrets, log, metrics });
    const secondFactor = createSecondFactor({ sealer: secrets, limits });
    const auditKeys = new SigningKeys(secrets);
    const sealer = await startAuditSealer(database, auditKeys, metrics, log);
    closing.add('audit sealer', () => sealer.close());
    const audit = createAuditTrail(sealer);
    const logReads = new LogReadRecorder({ db: database.pool, audit, log });
    closing.add('records of log reads', () => logReads.close());
    const signInTrail = new SignInTrail(audit);
    closing.add('sign-in trail', () => signInTrail.close());
    const ending: AccountEnding = {
      revokeKeysOf,
      noteDisplaced: (tx, ctx, userId) => signInTrail.noteDisplaced(tx, ctx, userId),
    };
    const proxyTrust: ProxyTrust = {
      proxies: config.trustedProxies.length === 0 ? undefined : addressList(config.trustedProxies),
      cfConnectingIp: config.trustCfConnectingIp,
    };
    const notifications = new DatabaseNotifications({
      url: urls.appUrl,
      channel: ACCESS_CHANNEL,
      onNotifications: (payloads) => hub?.accessChanged(payloads),
      onReturn: () => hub?.accessMayHaveChanged(),
      log,
    });
    closing.add('notifications', () => notifications.close());
    await notifications.start();
    const isInTouch = () => notifications.isInTouch;
    const credentials = new CachedAgentCredentials(database.hubPool, isInTouch);
    if (redis !== undefined && config.redisUrl !== undefined) {
      const onSuperseded = (deviceId: string, epoch: number) => hub?.superseded(deviceId, epoch);
      const onReturn = () => hub?.tellAgain();
      const { redisUrl } = config;
      const joined = await joinCluster({ redisUrl, redis, nodeId, onSuperseded, onReturn, log, metrics });
      cluster = joined;
      closing.add('cluster', async () => {
        // The hub takes leave of the others itself, where it was made.
        await joined.bus.close();
        await joined.close();
      });
    }
    const live = (hub = createHub({
      httpServer,
      nodeId,
      ...(cluster === undefined
        ? {}
        : {
            bus: cluster.bus,
            directory: cluster.directory,
            nodes: cluster.nodes,
            joinDashboards: cluster.joinDashboards,
          }),
      store: createDeviceStore({
        db: database.hubPool,
        nodeId,
        audit,
        log,
        expensive: expensiveLive,
        onHeard: (deviceIds) => groups?.touched(deviceIds, 'heard'),
        onPresence: (deviceIds) => groups?.touched(deviceIds, 'turned'),
      }),
      onTold: {
        devices: (deviceIds) => groups?.touched(deviceIds, 'recorded'),
        filter: (filterId) => groups?.filterChanged(filterId),
        customField: (orgId) => groups?.customFieldChanged(orgId),
      },
      fleet: createFleetStore({ db: database.hubPool, expensive: expensiveLive }),
      credentials,
      ledger: createCommandLedger({ db: database.hubPool, nodeId }),
      logReads,
      people: { ...authenticator, countUse: (caller) => apiKeys.countUse(caller) },
      isInTouch,
      heartbeatSeconds: config.heartbeatSeconds,
      proxyTrust,
      log,
      metrics,
      ...hubTiming,
    }));
    closing.add('connections', async () => {
      const ended = connections.end();
      await live.close();
      await ended;
    });
    const follower = (groups = new DynamicGroupSync({ db: database.hubPool, hub, log }));
    closing.add('groups', () => follower.close());
    metrics.gauge('muster_groups_failing', 'Dynamic groups that could not be brought up to date.', () =>
      follower.failing(),
    );
    let draining = false;
    let url = '';
    const baseUrl = () => (config.publicUrl ?? `http://localhost:${new URL(url).port}`).replace(/\/+$/, '');
    const routes = routeTable({
      auth: authService({ accessTokens, secondFactor, limits, trail: signInTrail, ending }),
      limits,
      enrollLimits: enrollLimits(rateLimits),
      invitationLimits: invitationLimits(rateLimits),
      registration: createRegistration({
        accessTokens,
        limits: rateLimits,
        signInLimits: limits,
        audit,
        mailer,
        ending,
        baseUrl,
        isEnabled: config.registrationEnabled,
      }),
      secondFactor,
      hub,
      audit,
      logReads,
      trail: signInTrail,
      mailer,
      baseUrl,
      ending,
      heartbeatSeconds: config.heartbeatSeconds,
      secureCookies: config.secureCookies,
      clientAddressIsKnown: proxyTrust.proxies !== undefined,
      prunesAudit: urls.auditAdminUrl !== undefined,
      archivesAudit: config.auditArchive !== undefined,
      forgetTokens: (deviceIds) => credentials.forget(deviceIds),
    });
    const api = mount(routes, {
      db: database.pool,
      authenticator: apiKeys.limited(authenticator),
      agents: createAgentAuthenticator(credentials, hub),
      audit,
      expensive,
    });
    const document = openApi(routes, API_INFO);
    const health = healthRoutes(VERSION, readinessChecks(database, redis), () => draining);
    databaseMetrics(metrics, database);
    expensiveMetrics(metrics, expensive);

    const app = express();
    app.disable('etag');
    app.set('query parser', 'simple');
    app.use(beginRequest(log, metrics, proxyTrust));
    app.use(helmet({ contentSecurityPolicy: CONTENT_SECURITY_POLICY }));
    app.use(['/api/v1', '/health', '/metrics'], neverStored);
    app.use(health);
    app.use(metricsRoute(metrics, config.metricsToken, proxyTrust));
    app.use(
      docsRoutes({ specUrl: '/api/v1/openapi.json', title: API_INFO.title, sockets: SOCKET_REFERENCE }),
    );
    app.use('/api/v1', health);
    app.get('/api/v1/openapi.json', (_request, response) => void response.json(document));
    app.use('/api/v1', api);
    app.use(unknownRoute);
    app.use(errorHandler);
    // Socket.IO takes upgrades only; every plain request is Express'.
    httpServer.on('request', app);

    pruneRowsDaily(jobs, { db: database.jobPool, rules: RETENTION_RULES, log });
    const nameIndexCompactor = new NameIndexCompactor({ db: database.hubPool, log });
    nameIndexCompactor.start();
    closing.add('name index compaction', () => nameIndexCompactor.close());
    const auditPruner = new AuditPruner({
      db: database.hubPool,
      adminUrl: urls.auditAdminUrl,
      keys: auditKeys,
      archive:
        config.auditArchive === undefined
          ? undefined
          : createEntryArchive(database.hubPool, auditKeys, config.auditArchive),
      compactor: nameIndexCompactor,
      log,
    });
    auditPruner.start();
    closing.add('audit pruning', () => auditPruner.close());
    const maintenanceEnd = new MaintenanceEnd({ db: database.hubPool, hub, audit, log });
    maintenanceEnd.start();
    closing.add('ends of maintenance', () => maintenanceEnd.close());
    const alertRounds = new AlertRounds({ db: database.hubPool, log, timing: alertTiming });

    await hub.start();
    groups.start();
    url = await listen(httpServer, config);
    // Behind the hub, which has marked whom an earlier run left behind as connected.
    alertRounds.start();
    closing.add('alert rounds', () => alertRounds.close());
    jobs.start();
    closing.add('background jobs', () => jobs.close());
    closing.add('agents', () => {
      draining = true;
      connections.begin();
      return live.drain();
    });
    log.info({ url, nodeId, version: VERSION }, 'server.listening');

    return {
      url,
      hub,
      database,
      auditSealer: sealer,
      async close() {
        await closing.close();
        log.info({}, 'server.closed');
      },
    };
  } catch (error) {
    // What failed at the start is worth more than what fails at the end because of it.
    await closing.close().catch(() => undefined);
    throw error;
  }
}

/** The reference page needs inline styles; nothing may come from elsewhere. */
const CONTENT_SECURITY_POLICY = {
  useDefaults: false,
  directives: {
    'default-src': ["'self'"],
    'style-src': ["'self'", "'unsafe-inline'"],
    'img-src': ["'self'", 'data:'],
    'object-src': ["'none'"],
    'base-uri': ["'none'"],
    'frame-ancestors': ["'none'"],
  },
};

async function makeFirstAdmin(
  database: Database,
  admin: { email: string; password: string },
  log: Logger,
): Promise<void> {
  const made = await createFirstAdmin((why, work) => withSystem(database.pool, why, work), admin);
  if (made) log.info({ email: admin.email }, 'server.first_admin_created');
}

async function startAuditSealer(
  { pool, hubPool }: Database,
  keys: SigningKeys,
  metrics: Metrics,
  log: Logger,
): Promise<AuditSealer> {
  await keys.ensure(pool);
  const lag = metrics.histogram(
    'muster_audit_seal_lag_seconds',
    'From the deed until its audit entry has its place in the chain.',
    [],
    [0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300],
  );
  // Of the pool of the live side, so that people never wait for it.
  const sealer = new AuditSealer({ db: hubPool, keys, log, onSealed: (seconds) => lag.observe(seconds) });
  metrics.gauge('muster_audit_chains_failing', 'Chains that entries wait for and cannot be added to.', () =>
    sealer.failing(),
  );
  // What a server that was killed has left.
  sealer.wake();
  return sealer;
}

function readinessChecks({ pool }: Database, redis: RedisConnection | undefined) {
  return {
    database: async () => (await pool.raw('select 1 as up')).rows.length === 1,
    // Without Redis agents stay, and people who are signed in work on: a balancer that took this node away for it would
    // take them all away, from every node at once.
    redis: redis === undefined ? ('not_configured' as const) : { spare: () => redis.isUp() },
    migrations: async () => (await pendingMigrations(pool)).length === 0,
    isolation: async () => assertSafeRole(pool).then(() => true),
  };
}

function databaseMetrics(metrics: Metrics, { pool, hubPool }: Database): void {
  metrics.labelledGauge(
    'muster_database_connections',
    'Connections for requests, by what they do.',
    'state',
    () => poolState(pool),
  );
  metrics.labelledGauge(
    'muster_database_hub_connections',
    'Connections of the live side, by what they do.',
    'state',
    () => poolState(hubPool),
  );
}

function expensiveMetrics(metrics: Metrics, work: ExpensiveWork): void {
  metrics.labelledGauge(
    'muster_expensive_requests',
    'Expensive requests that wait for their turn now, and those that were refused since the start.',
    'state',
    () => work.state,
  );
}
