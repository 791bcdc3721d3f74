import { isIPv6 } from 'node:net';
import { hostname } from 'node:os';
import { SEALED_COLUMNS } from '../features/sealed-columns.ts';
import { createRateLimits } from '../platform/cluster/rate-limits.ts';
import { openRedis } from '../platform/cluster/redis.ts';
import type { CloseStack } from '../platform/close-stack.ts';
import { hubPoolSize, openDatabase } from '../platform/db/database.ts';
import { ExpensiveWork } from '../platform/expensive-work.ts';
import { addressList, type ProxyTrust } from '../platform/http/client-address.ts';
import { ConnectionDrain } from '../platform/http/server/connection-drain.ts';
import { createHttpServer } from '../platform/http/server/http-server.ts';
import { newId } from '../platform/ids.ts';
import { createJobs } from '../platform/jobs/jobs.ts';
import { createDelivery } from '../platform/mail/delivery.ts';
import { createMailer } from '../platform/mail/mailer.ts';
import { createMetrics } from '../platform/metrics.ts';
import { GuardedFetch } from '../platform/outbound/guarded-fetch.ts';
import { createTxtLookup } from '../platform/outbound/txt-records.ts';
import { assertSecretsOpen } from '../platform/secrets/reseal.ts';
import { createSealer } from '../platform/secrets/sealed.ts';
import { databaseGauges, expensiveWorkGauge } from './gauges.ts';
import type { ServerOptions } from './options.ts';

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

  const secrets = createSealer(secretKeys);
  const { broken } = await assertSecretsOpen(database.queuePool, secrets, SEALED_COLUMNS);
  if (broken.length > 0) log.error({ broken }, 'secrets.not_opened');
  const jobs = createJobs({ db: database.queuePool, sealer: secrets, log, metrics });
  const mailer = createMailer(jobs, createDelivery({ ...config.mail, dataDir: config.dataDir, log }));

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
