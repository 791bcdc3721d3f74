import { isIPv6 } from 'node:net';
import { hostname } from 'node:os';
import { SEALED_COLUMNS } from '../features/sealed-columns.ts';
import { createRateLimits } from '../platform/cluster/rate-limits.ts';
import { openRedis } from '../platform/cluster/redis.ts';
import type { CloseStack } from '../platform/close-stack.ts';
import { hubPoolSize, openDatabase, type Database, type DatabaseUrls } from '../platform/db/database.ts';
import { ExpensiveWork } from '../platform/concurrency.ts';
import { addressList, type ProxyTrust } from '../platform/http/client-address.ts';
import { ConnectionDrain, createHttpServer } from '../platform/http/http-server.ts';
import { newId } from '../platform/ids.ts';
import { createJobs } from '../platform/jobs/jobs.ts';
import { createDelivery, createMailer } from '../platform/mail.ts';
import { createMetrics, type Metrics } from '../platform/metrics.ts';
import { GuardedFetch, type GuardedFetchOptions } from '../platform/outbound/guarded-fetch.ts';
import { createTxtLookup } from '../platform/outbound/txt-records.ts';
import { assertSecretsOpen } from '../platform/secrets/reseal.ts';
import { createEncryptor, type SecretKeys } from '../platform/secrets/sealed.ts';
import { poolState } from '../platform/db/pool.ts';
import type { Config } from '../config.ts';
import type { RoundTiming } from '../features/alert-rules/index.ts';
import type { NotificationTiming } from '../features/notifications/index.ts';
import type { DispatcherTiming } from '../features/webhooks/index.ts';
import type { HubOptions } from '../hub/index.ts';
import type { Logger } from '../platform/logger.ts';
import type { SinglePage } from '../platform/http/single-page.ts';

/** The purpose of each pool, by the name of its metric. */
const POOLS = {
  connections: { pool: 'pool', use: 'requests' },
  hub_connections: { pool: 'hubPool', use: 'the live side' },
  job_connections: { pool: 'jobPool', use: 'background jobs' },
  queue_connections: { pool: 'queuePool', use: 'the queue of background jobs' },
  store_connections: { pool: 'storePool', use: 'the backup store' },
} as const;

function databaseGauges(metrics: Metrics, database: Database): void {
  for (const [name, { pool, use }] of Object.entries(POOLS)) {
    metrics.labelledGauge(
      `muster_database_${name}`,
      `Connections of the pool for ${use}, by state.`,
      'state',
      () => poolState(database[pool]),
    );
  }
}

function expensiveWorkGauge(metrics: Metrics, work: ExpensiveWork): void {
  metrics.labelledGauge(
    'muster_expensive_requests',
    'Expensive requests that are waiting for their turn, and those refused since the start.',
    'state',
    () => work.state,
  );
}

export type Infrastructure = Awaited<ReturnType<typeof openInfrastructure>>;

/** The parts without a business word: database, Redis, mail, metrics, secrets and the HTTP server, not listening yet. */
export async function openInfrastructure(
  { config, database: urls, secretKeys, log, outbound }: ServerOptions,
  closing: CloseStack,
) {
  const metrics = createMetrics();
  const database = await openDatabase({
    ...urls,
    autoMigrate: config.autoMigrate,
    poolSize: config.databasePoolSize,
    log,
  });
  closing.add('database', () => database.close());
  databaseGauges(metrics, database);

  const secrets = createEncryptor(secretKeys);
  const { broken } = await assertSecretsOpen(database.queuePool, secrets, SEALED_COLUMNS);
  if (broken.length > 0) log.error({ broken }, 'secrets.not_opened');
  const jobs = createJobs({ db: database.queuePool, encryptor: secrets, log, metrics });
  const deliverMail = createDelivery({ ...config.mail, dataDir: config.dataDir, log });
  const mailer = createMailer(jobs, deliverMail);

  const redis = config.redisUrl === undefined ? undefined : await openRedis(config.redisUrl, log);
  closing.add('redis', () => redis?.close());

  // Each pool shares its connections out by itself.
  const expensive = new ExpensiveWork({ poolSize: config.databasePoolSize });
  const expensiveLive = new ExpensiveWork({ poolSize: hubPoolSize(config.databasePoolSize) });
  expensiveWorkGauge(metrics, expensive);

  const testing = outbound === undefined ? {} : { testing: outbound };
  const github = {
    addresses: { allowedInternal: config.github?.allowedPrivate ?? [] },
    log,
    ...testing,
  };
  const cloud = {
    addresses: { allowedInternal: config.cloudBackup.allowedPrivate, denied: config.outbound.denied },
    longestUrl: 16_384,
    log,
    ...testing,
  };
  const httpServer = createHttpServer();
  const proxyTrust: ProxyTrust = {
    proxies: config.trustedProxies.length === 0 ? undefined : addressList(config.trustedProxies),
    cfConnectingIp: config.trustCfConnectingIp,
  };
  return {
    config,
    urls,
    log,
    nodeId: config.nodeId ?? `${hostname()}-${newId().slice(-8)}`,
    metrics,
    database,
    jobs,
    mailer,
    /** Sends a mail at once, for those who need to know what came of it. */
    deliverMail,
    redis,
    rateLimits: createRateLimits(redis),
    secrets,
    secretKeys,
    /** Reaches identity providers, which may be inside the operator's network. */
    ssoFetch: new GuardedFetch({
      addresses: { allowedInternal: config.outbound.ssoAllowedPrivate, denied: config.outbound.denied },
      log,
      ...testing,
    }),
    /** Reaches the API of GitHub, or of a mirror inside the operator's network. */
    githubFetch: new GuardedFetch({ ...github, limits: { headersMs: 20_000, totalMs: 30_000 } }),
    /** Downloads files of releases. */
    githubFiles: new GuardedFetch({
      ...github,
      limits: { headersMs: 30_000, pieceMs: 60_000, totalMs: 1_800_000 },
    }),
    /** Reaches Microsoft Graph. Its links carry long tokens. */
    cloudFetch: new GuardedFetch({ ...cloud, limits: { headersMs: 60_000, totalMs: 120_000 } }),
    /** Sends and receives files there. */
    cloudFiles: new GuardedFetch({
      ...cloud,
      limits: { headersMs: 60_000, pieceMs: 60_000, totalMs: 6 * 3_600_000 },
    }),
    /** Sends webhook events to the systems of integrators. */
    webhookFetch: new GuardedFetch({
      addresses: {
        allowedInternal: config.outbound.webhookAllowedPrivate,
        denied: config.outbound.denied,
      },
      log,
      ...testing,
    }),
    txtRecords: createTxtLookup({ nameServers: outbound?.nameServers }),
    expensive,
    expensiveLive,
    httpServer,
    connections: new ConnectionDrain(httpServer),
    proxyTrust,
    /** The address under which people reach this server, without a slash at the end. */
    baseUrl: () => (config.publicUrl ?? localUrl(httpServer)).replace(/\/+$/, ''),
  };
}

/** Where the server listens: the same host as in its log, so that a link does not lead to one without the session. */
function localUrl(httpServer: ReturnType<typeof createHttpServer>): string {
  const address = httpServer.address();
  if (address === null || typeof address === 'string') return 'http://localhost';
  const isEveryAddress = ['0.0.0.0', '::'].includes(address.address);
  const host = isIPv6(address.address) ? `[${address.address}]` : address.address;
  return `http://${isEveryAddress ? 'localhost' : host}:${address.port}`;
}

export interface ServerOptions {
  config: Config;
  /** How to reach the database: the configured one, or the embedded one that `runServer` has started. */
  database: DatabaseUrls;
  jwtSecret: string;
  secretKeys: SecretKeys;
  log: Logger;
  /** Without it, only programs are served. */
  dashboard?: SinglePage;
  /** Shorter times and smaller limits, for tests. */
  hub?: Pick<
    HubOptions,
    | 'graceMs'
    | 'dashboardRecheckMs'
    | 'dashboardPatienceMs'
    | 'dashboardLimits'
    | 'admission'
    | 'liveFilters'
    | 'undeliveredWorkMs'
  >;
  alerts?: Partial<RoundTiming>;
  webhooks?: Partial<DispatcherTiming>;
  notifications?: Partial<NotificationTiming>;
  backupStore?: { idleMs?: number; reserveBytes?: number };
  /** For tests, whose identity providers and name servers are local. */
  outbound?: GuardedFetchOptions['testing'];
}
